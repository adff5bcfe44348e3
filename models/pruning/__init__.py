"""Pruning of language models: what to remove, how the rest answers, and how removal becomes smaller matrices.

    pattern                which weights go, given scores: unstructured, per output, N:M
    magnitude wanda ria    scores; scoring finds them by name; activations and
                           calibration gather what they read
    reconstruction         kept weights make up for removed ones, given a mask
    channel_permutation    orders of channels that suit N:M; permuted_linear runs them, folding hides them
    layerwise              one decoder layer at a time, activations from pruned predecessors
    llm_surgeon            curvature: weights, N:M, rows and columns under one threshold, corrected, in shots
    structured_magnitude   rows and columns by their norm: the baseline
    shrink                 whole MLP channels and attention heads leave, and the matrices become smaller
    aligned                which of them leave, by scores or by curvature
Zeros alone make nothing smaller or faster on stock kernels; only `shrink` does.
"""
