"""Pressroom beside other model servers: the same graphs, the same load, one run. `python -m benchmarks.peers`."""
