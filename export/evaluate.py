"""Test errors of the exported weights, measured as the papers do: MSE and MAE on scaled values over the test windows.

Windows have stride 1 and reach back across the border, so the first forecast starts on the first test row:
rows t0 to t1 give t1 - t0 - H + 1 windows. Averages go over windows, steps and columns, summed in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from export.artifact import Metric
from export.errors import DataError, OptionError
from export.progress import Report, silent
from export.runner import Runner
from export.scaling import SPLITS, Split
from export.training_data import TrainingTable
from models.forecasting.calendar import calendar_marks
from models.forecasting.spec import ForecastSpec

BATCH = 64
STEP = "evaluate on the test rows"


def evaluate(
    run: Runner, spec: ForecastSpec, table: TrainingTable | None, split: Split | None, report: Report = silent
) -> list[Metric]:
    """MSE and MAE on the split's test rows. Raises OptionError without csv, scaler or test rows."""
    if table is None or split is None or split.test is None or spec.scaler is None:
        raise OptionError(
            "--evaluate needs a csv, a scaler and a split with test rows", f"give --data FILE --split {SPLITS[0]}"
        )
    first, last = split.test[0] - spec.look_back, split.test[1]
    windows = last - split.test[0] - spec.horizon + 1
    if first < 0 or windows < 1:
        raise DataError(f"the test rows {split.test[0]}:{last} hold no window of {spec.look_back} + {spec.horizon}")
    mse, mae = _errors(run, spec, table, first, windows, report)
    where = {"data": table.file, "split": f"test ({split.name})", "windows": windows}
    return [
        Metric.model_validate({"name": "mse", "value": mse, "unit": "scaled units squared", **where}),
        Metric.model_validate({"name": "mae", "value": mae, "unit": "scaled units", **where}),
    ]


def _errors(
    run: Runner, spec: ForecastSpec, table: TrainingTable, first: int, count: int, report: Report
) -> tuple[float, float]:
    """MSE and MAE over `count` windows of stride 1, the first one beginning at row `first`."""
    assert spec.scaler is not None
    length = spec.look_back + spec.horizon
    scaled = spec.scaler.scale(table.values[first : first + count + length - 1])
    windows = np.moveaxis(sliding_window_view(scaled, length, axis=0), 2, 1)  # [W, L+H, C]
    squared = absolute = 0.0
    for start in range(0, count, BATCH):
        part = windows[start : start + BATCH]
        tensors = {"x_enc": np.ascontiguousarray(part[:, : spec.look_back])}
        if spec.takes_marks:
            tensors["x_mark_enc"] = _marks(table, spec, first + start, len(part))
        error = run(tensors).astype(np.float64) - part[:, spec.look_back :]
        squared, absolute = squared + float((error**2).sum()), absolute + float(np.abs(error).sum())
        report(STEP, min(start + BATCH, count), count)
    values = count * spec.horizon * scaled.shape[1]
    return round(squared / values, 6), round(absolute / values, 6)


def _marks(table: TrainingTable, spec: ForecastSpec, first: int, count: int) -> npt.NDArray[np.float32]:
    """Calendar marks of `count` consecutive windows, [count, L or L + H, M]; width 0 if the csv has no time column."""
    steps = spec.mark_steps
    if table.stamps is None or spec.calendar is None:
        return np.zeros((count, steps, 0), dtype=np.float32)
    marks = calendar_marks(table.stamps[first : first + count + steps - 1], spec.calendar)
    return np.ascontiguousarray(np.moveaxis(sliding_window_view(marks, steps, axis=0), 2, 1))
