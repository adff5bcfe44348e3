"""Training, validation and test windows of a csv, scaled by its training rows, as the papers cut them.

A window's forecast lies within its part; its history may reach back into the part before. Where a network reads more
than it forecasts from (LIFT's exact estimator), the first windows of the training rows start that much later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from export.scaling import Split, fit_scaler, split_rows
from export.training_data import TrainingTable, read_table
from models.forecasting.calendar import calendar_marks
from models.forecasting.frequency import Frequency
from models.forecasting.scaler import Scaler
from recipes.forecasting.settings import Data

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Everything windows are cut from.

    scaled  float32 [rows, N]; marks float32 [rows, M], hourly marks whatever the step, as the official programs do
    parts   "train", "validation", "test" -> int64 row of each window's first forecast step
    """

    table: TrainingTable
    split: Split
    scaler: Scaler
    scaled: Tensor
    marks: Tensor
    parts: dict[str, Rows]
    look_back: int
    horizon: int

    def batch(self, first: Rows, *, marks_ahead: bool) -> tuple[Tensor, Tensor, Tensor]:
        """History [B, L, N], its marks [B, L or L + H, M], and the truth [B, H, N]."""
        start = torch.from_numpy(first).unsqueeze(1)
        before = start + torch.arange(-self.look_back, 0)
        after = start + torch.arange(self.horizon)
        clock = torch.cat([before, after], dim=1) if marks_ahead else before
        return self.scaled[before], self.marks[clock], self.scaled[after]


def count_columns(data: Data) -> int:
    """Columns of the csv beside the time column. Raises DataError."""
    return len(read_table(data.csv).columns)


def read_windows(data: Data, look_back: int, horizon: int) -> Windows:
    """Raises DataError or OptionError where csv, split and sizes do not fit."""
    table = read_table(data.csv)
    split = split_rows(data.split, len(table.values))
    if split.test is None or table.stamps is None:
        raise ValueError(f"{data.csv.name}, split {data.split}: a run needs timestamps, validation and test rows")
    scaler, _ = fit_scaler(table, split)
    marks = calendar_marks(table.stamps, Frequency.parse("h"))
    borders = {"train": split.train, "validation": (split.train[1], split.test[0]), "test": split.test}
    return Windows(
        table=table,
        split=split,
        scaler=scaler,
        scaled=torch.from_numpy(scaler.scale(table.values)),
        marks=torch.from_numpy(np.array(marks)),
        parts={name: np.arange(max(a, look_back), b - horizon + 1) for name, (a, b) in borders.items()},
        look_back=look_back,
        horizon=horizon,
    )
