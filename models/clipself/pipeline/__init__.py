"""Raw requests to tensors and back, in numpy and Pillow: what a service needs beside the exported graphs."""
