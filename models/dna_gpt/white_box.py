"""The white-box score: is the text as likely as what the model itself would have written there?

W = mean log-probability a token of the remainder minus the mean over regenerations of theirs; natural logarithms;
higher = more machine-like. All log-probabilities are those after the same prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class WhiteBoxReading:
    """score = remainder_mean - mean of regeneration_means, which leave out regenerations without a token."""

    score: float
    remainder_mean: float
    regeneration_means: tuple[float, ...]

    @property
    def baseline(self) -> float:
        """What the model's own text scores a token."""
        return float(np.mean(self.regeneration_means))


def read_white_box(remainder: Sequence[float], regenerations: Sequence[Sequence[float]]) -> WhiteBoxReading | None:
    """Log-probabilities of the remainder's tokens and of every regeneration's; None where either side has no token."""
    means = tuple(float(np.mean(one)) for one in regenerations if len(one))
    if not len(remainder) or not means:
        return None
    mean = float(np.mean(remainder))
    return WhiteBoxReading(mean - float(np.mean(means)), mean, means)


def after_prefix(log_probs: Sequence[float | None], prefix_tokens: int) -> list[float]:
    """The remainder's part of a whole text's log-probabilities; the first token of a text has none."""
    return [value for value in log_probs[prefix_tokens:] if value is not None]
