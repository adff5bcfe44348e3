"""Text generators to compare, each in a process and, where it must, a Python environment of its own."""
