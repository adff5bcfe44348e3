"""How far off a forecaster usually is, measured at export: conformal quantiles, and the deciles of its training rows.

Calibration windows end before the test rows: by default all of the training csv up to there, every time of year
counting alike however often the file holds it (docs/forecasting.md says what that does on ETTh1, and what other choices
do). A file of its own (`--calibration FILE`) is used whole: recent rows of the series that will be served are better
than old ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from export.errors import DataError, OptionError
from export.forecast_data import Prepared
from export.progress import Report, silent
from export.runner import Runner
from export.training_data import TrainingTable, read_table
from models.forecasting import conformal, drift
from models.forecasting.calibration import Calibration
from models.forecasting.pipeline import to_raw, to_tensors
from models.forecasting.spec import ForecastSpec

NONE = "none"
STEP = "calibrate intervals"
BATCH = 64
MOST_WINDOWS = 4096  # more do not move a quantile
MOST_BYTES = 2**29  # of all scores together

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a file whose windows calibrate: file name, first row, values [N, C], stamps [N] or None."""

    file: str
    first: int
    values: npt.NDArray[np.float64]
    stamps: npt.NDArray[np.int64] | None

    @property
    def interval(self) -> str:
        return f"{self.first}:{self.first + len(self.values)}"


@dataclass(frozen=True)
class Calibrated:
    """The calibration, and what the manifest's settings say about it."""

    calibration: Calibration
    words: dict[str, Any]


def calibrate(
    run: Runner, spec: ForecastSpec, prepared: Prepared, wish: str | None = None, report: Report = silent
) -> Calibrated:
    """Measure with the exported weights. wish: a csv, NONE, or None: the training csv's rows before the test rows.

    Raises OptionError or DataError only where a file was named and cannot be used.
    """
    reference, words = _reference(prepared)
    rows = None if wish == NONE else _given(wish, spec) if wish else _before_test(prepared, spec)
    if rows is None:
        return Calibrated(Calibration(None, reference), words)
    found = _conformal(run, spec, rows, report)
    words |= {
        "intervals": {
            "method": "split-conformal",
            "levels": "1 to 99" if found.levels == conformal.FINE else ", ".join(map(str, found.levels[:-1])),
            "windows": found.windows,
            "data": rows.file,
            "rows": rows.interval,
            "season": found.season,
            "difficulty": "distance of the last season from those before it, of the column and of all",
            "weights": "every time of year alike",
        }
    }
    return Calibrated(Calibration(found, reference), words)


def _reference(prepared: Prepared) -> tuple[drift.Reference | None, dict[str, Any]]:
    if prepared.table is None or prepared.split is None:
        return None, {}
    start, end = prepared.split.train
    rows = prepared.table.values[start:end]
    return drift.reference(rows), {"drift": {"data": prepared.table.file, "rows": f"{start}:{end}"}}


def _given(path: str, spec: ForecastSpec) -> Rows:
    if spec.columns is None:
        raise OptionError("--calibration needs named columns", "name them with --columns, or give --data")
    if not Path(path).exists():
        raise OptionError(f"--calibration {path!r} does not exist", f"give a csv, or {NONE}")
    table = read_table(Path(path), columns=spec.columns, freq=str(spec.frequency))
    rows = Rows(table.file, 0, table.values, table.stamps)
    if (count := _windows(rows, spec)) < conformal.LEAST_SCORES:
        raise DataError(
            f"{table.file} holds {max(count, 0)} windows of {spec.look_back} + {spec.horizon} rows, intervals need "
            f"{conformal.LEAST_SCORES}",
            f"give at least {conformal.LEAST_SCORES + spec.look_back + spec.horizon - 1} rows",
        )
    if spec.marks_ahead and table.stamps is None:
        raise DataError(f"{table.file} has no time column, and the network reads the calendar", "add a column `date`")
    return rows


def _before_test(prepared: Prepared, spec: ForecastSpec) -> Rows | None:
    """None where there is too little, or nothing to tell training rows from test rows."""
    table, split = prepared.table, prepared.split
    if table is None or split is None or spec.columns is None:
        return None
    end = split.test[0] if split.test else split.train[1]
    rows = _cut(table, split.train[0], end)
    enough = _windows(rows, spec) >= conformal.LEAST_SCORES and not (spec.marks_ahead and table.stamps is None)
    return rows if enough else None


def _cut(table: TrainingTable, first: int, end: int) -> Rows:
    stamps = None if table.stamps is None else table.stamps[first:end]
    return Rows(table.file, first, table.values[first:end], stamps)


def _windows(rows: Rows, spec: ForecastSpec) -> int:
    return len(rows.values) - spec.look_back - spec.horizon + 1


def _conformal(run: Runner, spec: ForecastSpec, rows: Rows, report: Report) -> conformal.Conformal:
    columns = rows.values.shape[1]
    unit = rows.values.std(axis=0) if spec.scaler is None else spec.scaler.std
    unit = np.where(unit > 0, unit, 1.0)
    season = conformal.season_of(spec.frequency)
    most = int(np.clip(MOST_BYTES // (4 * spec.horizon * columns), 2 * conformal.LEAST_SCORES, MOST_WINDOWS))
    starts = np.arange(0, _windows(rows, spec), -(-_windows(rows, spec) // most))
    scores = np.empty((len(starts), spec.horizon, columns), dtype=np.float32)
    for begin in range(0, len(starts), BATCH):
        part = starts[begin : begin + BATCH]
        scores[begin : begin + BATCH] = _scores(run, spec, rows, part, unit, season)
        report(STEP, min(begin + BATCH, len(starts)), len(starts))
    weights = conformal.year_weights(starts, conformal.year_of(spec.frequency))
    return conformal.calibrate(scores, unit, season, weights)


def _scores(
    run: Runner, spec: ForecastSpec, rows: Rows, starts: npt.NDArray[np.integer], unit: Floats, season: int
) -> Floats:
    """|truth - forecast| / difficulty of the windows that begin at `starts`: [B, H, C]."""
    length = spec.look_back + spec.horizon
    windows = np.moveaxis(sliding_window_view(rows.values, length, axis=0)[starts], 2, 1)  # [B, L + H, C]
    history = windows[:, : spec.look_back]
    clock = None
    if spec.takes_marks and rows.stamps is not None:
        clock = sliding_window_view(rows.stamps, spec.look_back)[starts]
    forecast = to_raw(run(to_tensors(history, clock, spec)), spec)
    scale = conformal.unrest(history, unit, season) * unit
    return np.asarray(np.abs(windows[:, spec.look_back :] - forecast) / scale[:, None])
