"""Small training runs, one folder a paper: each ends in a checkpoint of the official layout and its export command."""
