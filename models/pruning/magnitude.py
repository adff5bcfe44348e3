"""Magnitude pruning: a weight matters as much as it is large. The baseline of every table; needs no calibration."""

from __future__ import annotations

from torch import Tensor


def magnitude_score(weight: Tensor) -> Tensor:
    """|w|: float [R, C] -> [R, C]."""
    return weight.abs()
