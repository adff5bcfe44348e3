"""MOTOR (Steinberg et al., ICLR 2024) from a folder of MEDS records: dictionary, pretraining, task adapters."""
