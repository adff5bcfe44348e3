"""A corpus of bad requests over every route and protocol, and the refusal each must get.

The tables are data, grouped by theme; `test_corpus.py` sends every case to a real gateway.
"""
