"""BentoML services: one module a model family, over one serving core."""
