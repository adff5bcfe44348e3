"""Drift of a model's inputs: deciles of the training rows against what requests bring, column by column.

The population stability index of shares p (training) and q (requests) over the ten bins is sum((q - p) ln(q / p)).
Usual reading: below 0.1 nothing, 0.1 to 0.25 some, above 0.25 much. Neighbouring rows resemble each other, so a handful
of windows says little: four days of a year are always "much".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BINS = 10
LEAST_SHARE = 1e-4  # an empty bin counts as this share: the index stays finite

Floats = npt.NDArray[np.floating]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reference:
    """Training rows of every column.

    edges   float64 [9, C], raw units, ascending; a value on an edge belongs to the bin above
    shares  float64 [10, C], of the training rows in each bin; the columns sum to 1
    """

    edges: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]

    def counts(self, rows: Floats) -> Counts:
        """Values of rows [N, C] in each bin: int64 [10, C]."""
        above = (rows[:, None, :] >= self.edges).sum(axis=0)  # [9, C], of an edge and beyond
        whole = np.full((1, rows.shape[1]), len(rows))
        return np.asarray(
            np.concatenate([whole, above]) - np.concatenate([above, np.zeros_like(whole)]), dtype=np.int64
        )

    def index(self, counts: Counts) -> npt.NDArray[np.float64]:
        """Population stability index of counted values [10, C]: float64 [C]; NaN without any."""
        total = counts.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            seen = np.maximum(counts / total, LEAST_SHARE)
        trained = np.maximum(self.shares, LEAST_SHARE)
        index: npt.NDArray[np.float64] = ((seen - trained) * np.log(seen / trained)).sum(axis=0)
        return np.where(total > 0, index, np.nan)


def reference(rows: Floats) -> Reference:
    """Deciles of training rows [N, C] in raw units, and the shares that really lie between them (ties count)."""
    edges = np.asarray(np.quantile(rows, np.arange(1, BINS) / BINS, axis=0), dtype=np.float64)
    found = Reference(edges, np.ones((BINS, rows.shape[1])) / BINS)
    return Reference(edges, found.counts(rows) / len(rows))
