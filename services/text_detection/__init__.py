"""Detecting machine-written text: what is asked of a generator about a text, and how the answer is put."""
