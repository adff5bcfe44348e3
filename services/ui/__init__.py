"""The playground: a page at /ui/ that asks the public API, made of static files. Nothing here knows a model."""
