"""Open-vocabulary detection: what the four image routes read, run and answer."""
