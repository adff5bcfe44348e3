"""Llama-style decoders as pruning and export see them: which layers, which projections, one layer at a time."""
