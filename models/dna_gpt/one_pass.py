"""Companions that read a text once: mean log-probability, and Fast-DetectGPT's curvature (Bao et al., ICLR 2024).

Curvature asks whether a text is likelier than the model expects of its own samples:
(sum of log p(x_t) - sum of E[log p]) / sqrt(sum of Var[log p]), expectation and variance under the model's own
next-token distribution, which one pass gives in closed form. Human text lies about 0, machine text above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Of a text's tokens, float64 [T] each: log p of the token itself, expectation and variance of log p before it."""

    log_prob: Floats
    mean: Floats
    variance: Floats


def moments(logits: npt.NDArray[np.floating], tokens: npt.NDArray[np.int64]) -> Moments:
    """logits [T, V] before each token, tokens [T]. A token the model forbids (logit -inf) may stand in V."""
    wide = logits.astype(np.float64)
    log_probs = wide - wide.max(axis=1, keepdims=True)
    log_probs -= np.log(np.exp(log_probs).sum(axis=1, keepdims=True))
    probs = np.exp(log_probs)
    finite = np.where(probs > 0, log_probs, 0.0)  # 0 log 0 = 0
    mean = (probs * finite).sum(axis=1)
    variance = (probs * (finite - mean[:, None]) ** 2).sum(axis=1)
    return Moments(log_probs[np.arange(len(tokens)), tokens], mean, variance)


def curvature(*parts: Moments) -> float | None:
    """Of a text given in one or more parts; None where it has no token, or nothing could have come otherwise."""
    spread = sum(float(part.variance.sum()) for part in parts)
    if spread <= 0:
        return None
    return sum(float((part.log_prob - part.mean).sum()) for part in parts) / math.sqrt(spread)


def mean_log_prob(log_probs: Sequence[float]) -> float | None:
    """A token's on average, natural logarithm; None where there is no token."""
    return float(np.mean(log_probs)) if len(log_probs) else None
