"""Linear layers stored small: 2:4 weights as values and positions, dense ones as bfloat16; the kernels for both."""
