"""The papers' networks and methods: pure torch and numpy, no input or output, no global state."""
