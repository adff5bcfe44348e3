"""What an artifact knows beside its forecast: conformal quantiles and the training rows' deciles, in one small file.

levels int64 [K], quantiles float32 [K, H, C], unit float64 [C],
numbers int64 [3] (season, windows, measure of difficulty; the last is missing, and 0, in artifacts of before it)
edges float64 [9, C], shares float64 [10, C]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from models.forecasting.conformal import Conformal
from models.forecasting.drift import Reference

FILE = "calibration.safetensors"


@dataclass(frozen=True)
class Calibration:
    """Either may be missing: intervals without calibration windows, drift without training rows."""

    conformal: Conformal | None
    reference: Reference | None

    def save(self, folder: Path) -> None:
        """Write FILE, unless there is nothing to write."""
        tensors: dict[str, npt.NDArray[Any]] = {}
        if (found := self.conformal) is not None:
            tensors |= {
                "levels": np.array(found.levels, dtype=np.int64),
                "quantiles": found.quantiles,
                "unit": found.unit,
                "numbers": np.array([found.season, found.windows, found.measure], dtype=np.int64),
            }
        if self.reference is not None:
            tensors |= {"edges": self.reference.edges, "shares": self.reference.shares}
        if tensors:
            save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, folder / FILE)


def load(folder: Path) -> Calibration:
    """Read FILE of an artifact's folder; an artifact without one has neither. Raises KeyError or ValueError."""
    if not (folder / FILE).exists():
        return Calibration(None, None)
    found = load_file(folder / FILE)
    conformal = reference = None
    if "quantiles" in found:
        season, windows, measure = (*found["numbers"].tolist(), 0)[:3]
        levels = tuple(found["levels"].tolist())
        conformal = Conformal(levels, found["quantiles"], found["unit"], season, windows, measure)
    if "edges" in found:
        reference = Reference(found["edges"], found["shares"])
    return Calibration(conformal, reference)
