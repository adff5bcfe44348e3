"""The standard scaler the papers train behind: one mean and one population standard deviation per column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Scaler:
    """Column statistics of the training rows.

    mean, std  float64 [C]; std > 0
    """

    mean: npt.NDArray[np.float64]
    std: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.mean.shape != self.std.shape or self.mean.ndim != 1:
            raise ValueError(f"scaler: mean has shape {self.mean.shape}, std {self.std.shape}; both must be [columns]")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and (self.std > 0).all()):
            raise ValueError("scaler: mean must be finite, std finite and positive")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Scaler:
        return cls(np.asarray(values["mean"], dtype=np.float64), np.asarray(values["std"], dtype=np.float64))

    def to_mapping(self) -> dict[str, list[float]]:
        return {"mean": self.mean.tolist(), "std": self.std.tolist()}

    @cached_property
    def smallest_std(self) -> float:
        return float(self.std.min())

    def scale(self, raw: Floats) -> npt.NDArray[np.float32]:
        """Raw units [..., C] to scaled float32, computed in float64 as the papers' scaler does."""
        return ((raw - self.mean) / self.std).astype(np.float32)

    def unscale(self, scaled: Floats) -> npt.NDArray[np.float64]:
        """Scaled [..., C] back to raw units, float64."""
        return scaled * self.std + self.mean
