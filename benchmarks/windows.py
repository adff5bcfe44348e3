"""The test windows of the bundled data: raw histories, their timestamps, and what happened next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from export.scaling import split_rows
from export.training_data import read_table
from pressroom.bundled import SPLIT, TRAINING_CSV


@dataclass(frozen=True)
class Windows:
    """W windows of stride 1 whose forecasts cover the papers' test rows. All in raw units.

    history  float64 [W, L, C]
    stamps   int64 [W, L], wall clock as epoch seconds
    truth    float64 [W, H, C]
    """

    columns: tuple[str, ...]
    history: npt.NDArray[np.float64]
    stamps: npt.NDArray[np.int64]
    truth: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.history)


def split_windows(look_back: int = 96, horizon: int = 96) -> Windows:
    """All windows of ETTh1's test rows: 2,785 at the defaults."""
    table = read_table(TRAINING_CSV)
    split = split_rows(SPLIT, len(table.values))
    assert split.test is not None
    assert table.stamps is not None
    first, last = split.test[0] - look_back, split.test[1]
    rows = sliding_window_view(table.values[first:last], look_back + horizon, axis=0)  # [W, C, L + H]
    stamps = sliding_window_view(table.stamps[first:last], look_back + horizon)
    values = np.moveaxis(rows, 2, 1)
    return Windows(table.columns, values[:, :look_back], stamps[:, :look_back], values[:, look_back:])
