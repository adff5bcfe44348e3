"""The little statistics a benchmark needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every entry over rounds that have the same entries."""
    return {name: median(one[name] for one in rounds) for name in rounds[0]}


def cost_at(rows: float, measured: Mapping[int, float]) -> float:
    """Cost of one row in a batch of `rows` rows, which may be a mean, from costs a row at some batch sizes.

    A batch costs a + b * rows, so a row costs a / rows + b: linear in 1 / rows, where the gaps are bridged.
    """
    sizes = sorted(measured, reverse=True)
    inverse = [1 / n for n in sizes]
    return float(np.interp(1 / rows, inverse, [measured[n] for n in sizes]))
