"""Metrics of forecasts: how many truths their intervals held, and how far requests have drifted from the training rows.

Labels are bounded: methods and levels are fixed lists, columns the model's first 64.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import prometheus_client as prom

from models.forecasting.drift import Reference
from services.core.metrics import write_with_all

METHODS = ("split", "adaptive")
MOST_COLUMNS = 64
OTHERS = "(others)"  # the label of all further columns: the largest index among them
WINDOWS = 256  # input windows a drift index looks back on
LEAST_WINDOWS = 16  # fewer say nothing about a distribution

COVERAGE = prom.Gauge(
    "pressroom_forecast_coverage_ratio",
    "Share of truths inside their interval, among the latest sent to the truth route; NaN before the first. Method is "
    "`split` (the artifact's intervals) or `adaptive` (as issued); level is the nominal coverage in percent.",
    ("model", "version", "method", "level"),
    multiprocess_mode="livemostrecent",
)
TRUTHS = prom.Counter(
    "pressroom_forecast_truths_total", "Values sent as truth that met a forecast.", ("model", "version")
)
KEPT = prom.Gauge(
    "pressroom_forecast_kept",
    "Forecasts with intervals that wait for their truth.",
    ("model", "version"),
    multiprocess_mode="livemostrecent",
)
DRIFT = prom.Gauge(
    "pressroom_forecast_drift_psi",
    f"Population stability index of a column, training rows against the latest {WINDOWS} input windows of a worker "
    "(the largest of all workers); NaN before the first 16. Above 0.25 is usually called much.",
    ("model", "version", "column"),
    multiprocess_mode="livemax",
)

Coverages = dict[tuple[str, int], float]  # method, level -> share


class CoverageMetrics:
    """The gauges of one model's intervals. read: coverages by method and level, and the number of kept forecasts."""

    def __init__(
        self, name: str, version: str, levels: tuple[int, ...], read: Callable[[], tuple[Coverages, int]]
    ) -> None:
        self._read = read
        self._series = {
            (method, level): COVERAGE.labels(name, version, method, str(level))
            for method in METHODS
            for level in levels
        }
        self._kept, self.truths = KEPT.labels(name, version), TRUTHS.labels(name, version)
        self._retired = False
        write_with_all(self)

    def retire(self) -> None:
        """The model is no longer served: the gauges are another's from now on, if a version took its place."""
        self._retired = True

    def write(self) -> None:
        if self._retired:
            return
        found, kept = self._read()
        for key, series in self._series.items():
            series.set(found.get(key, math.nan))
        self._kept.set(kept)


class DriftMetrics:
    """The drift gauges of one model: counts of the latest input windows, never their values."""

    def __init__(self, name: str, version: str, columns: tuple[str, ...], reference: Reference) -> None:
        self._reference = reference
        labels = [*columns[:MOST_COLUMNS], *([OTHERS] if len(columns) > MOST_COLUMNS else [])]
        self._series = [DRIFT.labels(name, version, label) for label in labels]
        self._windows: deque[npt.NDArray[np.int32]] = deque(maxlen=WINDOWS)
        self._sum: npt.NDArray[np.int64] = np.zeros(reference.shares.shape, dtype=np.int64)
        self._retired = False
        write_with_all(self)

    def retire(self) -> None:
        """See `CoverageMetrics.retire`."""
        self._retired = True

    def observe(self, history: npt.NDArray[np.floating]) -> None:
        """An input window [L, C] in raw units."""
        counts = self._reference.counts(history).astype(np.int32)
        if len(self._windows) == WINDOWS:
            self._sum -= self._windows[0]
        self._windows.append(counts)
        self._sum += counts

    def index(self) -> npt.NDArray[np.float64]:
        """The index of every column, [C]; NaN before LEAST_WINDOWS."""
        if len(self._windows) < LEAST_WINDOWS:
            return np.full(self._sum.shape[1], np.nan)
        return self._reference.index(self._sum)

    def write(self) -> None:
        if self._retired:
            return
        index = self.index()
        shown = [*index[:MOST_COLUMNS], *([index[MOST_COLUMNS:].max()] if len(index) > MOST_COLUMNS else [])]
        for series, value in zip(self._series, shown, strict=True):
            series.set(float(value))
