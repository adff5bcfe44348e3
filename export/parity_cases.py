"""The windows a parity certificate is made on: real ones where a csv is given, and the edges of every dynamic axis.

Each case holds B windows of one shape. `raw` cases are in raw units with the model's own columns and pass through the
whole served pipeline; the others vary the number of columns, are in scaled units and pass through the weights only.
Everything is drawn from the csv at fixed places or from a fixed seed, so a certificate is repeatable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from export.scaling import Split
from export.training_data import TrainingTable
from models.forecasting.frequency import Stamps
from models.forecasting.pipeline import Tensors, to_tensors
from models.forecasting.spec import ForecastSpec

FIRST_STAMP = 1577836800  # 2020-01-01 00:00:00, where synthetic windows begin
MANY_VARIATES = 64
FAR = 10.0  # standard deviations
NEARLY_FLAT = 1e-3

Histories = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """history float64 [B, L, N]; wall_clock int64 [B, L] or None for no calendar; raw as in the module's docstring."""

    name: str
    history: Histories
    wall_clock: Stamps | None
    raw: bool = True

    def tensors(self, spec: ForecastSpec) -> Tensors:
        """What the network reads for this case."""
        seen = spec if self.raw else replace(spec, scaler=None, columns=None)
        return to_tensors(self.history, self.wall_clock, seen)


@dataclass(frozen=True, kw_only=True)
class WindowSource:
    """Where windows come from: a training table, or synthetic series when there is none.

    variates  number of columns of a raw window
    """

    spec: ForecastSpec
    variates: int
    table: TrainingTable | None
    split: Split | None

    def windows(self, count: int) -> tuple[Histories, Stamps]:
        """`count` windows spread evenly over the test rows (or the whole file): [count, L, C] and [count, L]."""
        length = self.spec.look_back
        if self.table is None or len(self.table.values) < length:
            return self._synthetic(count)
        first, last = (self.split and self.split.test) or (length, len(self.table.values))
        starts = np.linspace(first - length, max(last - length - self.spec.horizon, first - length), count).astype(int)
        history = np.stack([self.table.values[s : s + length] for s in starts])
        clock = self.table.stamps
        begin = [FIRST_STAMP if clock is None else int(clock[s]) for s in starts]
        return history, np.stack([self.spec.frequency.range(b, length) for b in begin])

    def _synthetic(self, count: int) -> tuple[Histories, Stamps]:
        scaled = daily_series(count, self.spec.look_back, self.variates)
        scaler = self.spec.scaler
        history = scaled if scaler is None else scaler.unscale(scaled)
        return history, np.stack([self.spec.frequency.range(FIRST_STAMP, self.spec.look_back)] * count)


def daily_series(count: int, length: int, variates: int) -> Histories:
    """Seeded waves of period 24 with a drifting level: [count, length, variates], about unit variance."""
    generator = np.random.default_rng(20160701)
    phase = generator.uniform(0, 2 * np.pi, (count, 1, variates))
    wave = np.sin(2 * np.pi * np.arange(length)[None, :, None] / 24 + phase)
    drift = generator.normal(0, 0.1, (count, length, variates)).cumsum(axis=1)
    return np.asarray(wave + drift, dtype=np.float64)


def plan_cases(source: WindowSource, *, any_variates: bool) -> list[Case]:
    """At least five cases: batches of 1 and 7, the extremes of a value's scale, and every edge of a dynamic axis."""
    spec = source.spec
    history, clock = source.windows(7)
    stamps = clock if spec.takes_marks or source.table is not None else None
    pair = None if stamps is None else stamps[:2]
    cases = [
        Case("batch-1", history[3:4], None if stamps is None else stamps[3:4]),
        Case("batch-7", history, stamps),
        Case("constant-column", _with_constant_column(history[:2], spec), pair),
        Case("large-offset", history[:2] + FAR * _spread(history, spec), pair),
        Case("nearly-flat", _flattened(history[:2]), pair),
    ]
    if spec.takes_marks and not spec.marks_ahead:
        cases.append(Case("calendar-absent", history[2:4], None))
    if any_variates:
        marks = clock[:1] if spec.takes_marks else None
        cases.append(Case("variates-1", daily_series(1, spec.look_back, 1), marks, raw=False))
        cases.append(
            Case(f"variates-{MANY_VARIATES}", daily_series(1, spec.look_back, MANY_VARIATES), marks, raw=False)
        )
    return cases


def _spread(history: Histories, spec: ForecastSpec) -> npt.NDArray[np.float64]:
    return spec.scaler.std if spec.scaler is not None else history.std(axis=(0, 1))


def _with_constant_column(history: Histories, spec: ForecastSpec) -> Histories:
    """Column 0 at a value whose float32 mean is exact: the training mean, or a whole number.

    At any other value the network divides the mean's rounding error by a deviation of almost 0. That magnifies it
    ten-thousandfold in the official program and in every copy of it, which says nothing about an export.
    """
    changed = history.copy()
    changed[:, :, 0] = np.round(history[0, 0, 0]) if spec.scaler is None else spec.scaler.mean[0]
    return changed


def _flattened(history: Histories) -> Histories:
    mean = history.mean(axis=1, keepdims=True)
    return np.asarray(mean + NEARLY_FLAT * (history - mean))
