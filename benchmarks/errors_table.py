"""Forecast errors as the papers report them: MSE and MAE on scaled values over all windows, steps and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.forecasting.scaler import Scaler

TOLERANCE = 0.0005
Values = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Errors:
    """Mean squared and mean absolute error, in scaled units; `columns` holds the same per column."""

    mse: float
    mae: float
    columns: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Expected:
    """What the training program measured with this checkpoint, and what the paper prints for it, if it does."""

    mse: float
    mae: float
    paper: tuple[float, float] | None

    def met_by(self, found: Errors) -> bool:
        return abs(found.mse - self.mse) <= TOLERANCE and abs(found.mae - self.mae) <= TOLERANCE


def errors(forecast: Values, truth: Values, scaler: Scaler, columns: tuple[str, ...]) -> Errors:
    """Compare forecasts and truth [W, H, C] in raw units, on the scaler's scale, in float64."""
    gap = (np.asarray(forecast, dtype=np.float64) - truth) / scaler.std  # the means cancel
    squared, absolute = (gap**2).mean(axis=(0, 1)), np.abs(gap).mean(axis=(0, 1))
    each = {name: (float(s), float(a)) for name, s, a in zip(columns, squared, absolute, strict=True)}
    return Errors(float(squared.mean()), float(absolute.mean()), each)
