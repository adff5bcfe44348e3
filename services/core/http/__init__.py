"""The HTTP front: a small ASGI layer ahead of BentoML's own application."""
