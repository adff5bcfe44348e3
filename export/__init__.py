"""From an official checkpoint to a verified, self-describing artifact in BentoML's model store."""
