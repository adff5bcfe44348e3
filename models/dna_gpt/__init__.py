"""DNA-GPT: was a text written by a model? (Yang et al., "DNA-GPT: divergent n-gram analysis for training-free detection
of GPT-generated text", ICLR 2024).

A text is cut; the model under suspicion continues the first part several times; machine text is continued as it was,
human text is not. `cut` and `words` prepare, `overlap` and `weighting` make the black-box score and `black_box` joins
them, `evidence` shows what it rests on, `white_box` compares log-probabilities, `one_pass` holds the companions that
need no regeneration, `calibration` turns scores into thresholds with a declared false-positive rate, `verdict` says
what may be said. Texts, regenerations and log-probabilities come in as data: nothing here generates.
"""
