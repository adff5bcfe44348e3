"""Watermarks in served text: keys, schemes, messages and what they stand for, marking and reading."""
