"""Linear layers stored small, 2:4 or bfloat16, and the kernels for them and for int8 layers."""
