"""Intervals, filled histories and truths: plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np


class ForecastOptions(TypedDict, total=False):
    """How to forecast.

    levels    nominal coverages in percent, e.g. [80, 95]: an interval comes back for each
    interval  "split": the artifact's conformal intervals; "adaptive": those that follow the truths the server was sent
    missing   "refuse" (the server's default), "ffill" or "linear": what is done about missing values and time steps
    columns   columns to return; all are still sent
    roll_out  True: a horizon beyond the model's goes on from its own forecast, and a warning says so
    """

    levels: list[int] | tuple[int, ...]
    interval: Literal["split", "adaptive"]
    missing: Literal["refuse", "ffill", "linear"]
    columns: list[str]
    roll_out: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Interval:
    """Bounds of one nominal coverage.

    level         percent
    method        "split" or "adaptive"
    lower, upper  column -> float64 [H], raw units
    """

    level: int
    method: str
    lower: dict[str, np.ndarray]
    upper: dict[str, np.ndarray]

    @classmethod
    def parse(cls, raw: Mapping[str, Any], order: list[str]) -> Interval:
        """From one entry of the answer's `intervals`."""
        bounds = {
            side: {name: np.asarray(raw[side][name], np.float64) for name in order} for side in ("lower", "upper")
        }
        return cls(level=raw["level"], method=raw["method"], **bounds)


@dataclass(frozen=True)
class Filled:
    """What the server made up in the rows the model read: time steps put in, and values per column."""

    policy: str
    timestamps: int
    values: dict[str, int]


@dataclass(frozen=True)
class CoverageNote:
    """Share of truths inside their intervals so far, as the server counts it."""

    method: str
    level: int
    coverage: float
    values: int


@dataclass(frozen=True, kw_only=True)
class TruthResult:
    """The answer to one `send_truth` call.

    forecasts, values  kept forecasts each series met, and values compared, in the order sent
    coverage           of the model's intervals, the latest comparisons of this server
    """

    forecasts: tuple[int, ...]
    values: tuple[int, ...]
    coverage: tuple[CoverageNote, ...]
    model: str | None
    version: str | None
    request_id: str
