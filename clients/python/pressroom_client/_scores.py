"""Errors of forecasts, averaged over whatever is given; unknown truths (NaN) count nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scores:
    """Averages over windows, steps and columns.

    mse, mae  in the units of the values (squared); smape in percent, 0 to 200
    mase      absolute error over the seasonal naive forecast's, below 1 is better than it; NaN without rows for that
    coverage  level -> share of truths inside the interval
    values    truths that were compared
    """

    mse: float
    mae: float
    smape: float
    mase: float
    coverage: dict[int, float]
    values: int

    def as_dict(self) -> dict[str, float]:
        """One level of names: coverage_80 and so on."""
        plain = {"mse": self.mse, "mae": self.mae, "smape": self.smape, "mase": self.mase}
        return plain | {f"coverage_{level}": share for level, share in self.coverage.items()}


def scores(
    forecast: np.ndarray,
    truth: np.ndarray,
    naive: np.ndarray,
    bounds: Mapping[int, tuple[np.ndarray, np.ndarray]],
) -> Scores:
    """forecast, truth and bounds [W, H, C]; naive: the naive forecast's mean absolute errors [W, 1, C]."""
    known = np.isfinite(truth)
    error = np.abs(forecast - truth)[known]
    size = (np.abs(forecast) + np.abs(truth))[known]
    relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)
    unit = np.broadcast_to(naive, truth.shape)[known]
    with np.errstate(divide="ignore", invalid="ignore"):
        against = error / unit
    inside = {
        level: float(((truth >= low) & (truth <= high))[known].mean()) if known.any() else np.nan
        for level, (low, high) in bounds.items()
    }
    if not known.any():
        return Scores(np.nan, np.nan, np.nan, np.nan, inside, 0)
    return Scores(
        mse=float((error**2).mean()),
        mae=float(error.mean()),
        smape=float(200 * relative.mean()),
        mase=float(against.mean()),
        coverage=inside,
        values=int(known.sum()),
    )
