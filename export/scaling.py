"""The scaler's statistics: fitted on training rows as the papers do it, read from numbers, or left out on purpose.

Official programs fit a standard scaler (mean, population standard deviation, per column) on the training rows only and
never save it; their `predict` refits it on the whole file, which changes the answer and is not done here.
A column that never changes has no scale: it gets 1, as the papers' scaler library does.

    split        training rows      test target rows
    ett-hourly   0:8640             11520:14400         12 / 4 / 4 months of 30 days, hourly
    ett-minute   0:34560            46080:57600         the same in quarter hours
    custom       first 70 %         last 20 %
    A:B          A to B (end out)   none
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.errors import DataError, OptionError
from export.training_data import TrainingTable
from models.forecasting.scaler import Scaler

SPLITS = ("ett-hourly", "ett-minute", "custom")
_ETT_MONTH = {"ett-hourly": 30 * 24, "ett-minute": 30 * 24 * 4}
_RANGE = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True)
class Split:
    """Row intervals of a training file, ends excluded; test None if the split names training rows only."""

    name: str
    train: tuple[int, int]
    test: tuple[int, int] | None


@dataclass(frozen=True)
class GivenScaler:
    """A scaler read from numbers, with column names if the file had them."""

    scaler: Scaler
    columns: tuple[str, ...] | None


def split_rows(text: str, rows: int) -> Split:
    """The intervals of a split for a file of `rows` rows. OptionError if unknown, DataError if it does not fit."""
    if found := _RANGE.fullmatch(text):
        split = Split(text, (int(found[1]), int(found[2])), None)
    elif text in _ETT_MONTH:
        month = _ETT_MONTH[text]
        split = Split(text, (0, 12 * month), (16 * month, 20 * month))
    elif text == "custom":
        split = Split(text, (0, int(rows * 0.7)), (rows - int(rows * 0.2), rows))
    else:
        raise OptionError(f"--split {text!r} is not known", f"use {', '.join(SPLITS)} or training rows like 0:8640")
    start, end = split.train
    last = max(end, split.test[1] if split.test else 0)
    if start >= end or last > rows:
        raise DataError(
            f"--split {text} reads rows {start} to {last}, the file has {rows}",
            "choose the split the network was trained with, or give training rows like 0:8640",
        )
    return split


def fit_scaler(table: TrainingTable, split: Split) -> tuple[Scaler, list[str]]:
    """Statistics of the training rows, float64 [C], and a note for every column that never changes in them."""
    rows = table.values[split.train[0] : split.train[1]]
    mean, std = rows.mean(axis=0), rows.std(axis=0)
    constant = rows.max(axis=0) == rows.min(axis=0)  # the computed std may be a rounding error instead of 0
    std[constant] = 1.0
    names = [name for name, flat in zip(table.columns, constant, strict=True) if flat]
    notes = [f"column {name} is constant in the training rows: its scale is 1" for name in names]
    return Scaler(mean, std), notes


def read_scaler(path: Path) -> GivenScaler:
    """Statistics from a JSON: `{"mean": [...], "std": [...], "columns": [...]}`, or those of a bundled checkpoint.

    mean and std may also map column names to numbers. Raises DataError naming the file and what is wrong.
    """
    found = _entries(_read_json(path), path)
    mean, std, columns = found["mean"], found["std"], found.get("columns")
    if isinstance(mean, Mapping) and isinstance(std, Mapping):
        columns = list(mean)
        if set(mean) != set(std):
            raise DataError(f"{path.name}: mean and std name different columns")
        mean, std = list(mean.values()), [std[name] for name in columns]
    try:
        scaler = Scaler.from_mapping({"mean": mean, "std": std})
    except (TypeError, ValueError) as error:
        raise DataError(f"{path.name}: {error}", "mean and std are lists of numbers, std above 0") from None
    if columns is not None and len(columns) != len(scaler.mean):
        raise DataError(f"{path.name}: {len(columns)} columns for {len(scaler.mean)} means")
    return GivenScaler(scaler, None if columns is None else tuple(map(str, columns)))


def _entries(document: Any, path: Path) -> Mapping[str, Any]:
    """The mapping with `mean` and `std`, wherever the file keeps it."""
    if isinstance(document, Mapping):
        data = document.get("data")
        if isinstance(data, Mapping) and {"scaler_mean", "scaler_std"} <= data.keys():
            return {"mean": data["scaler_mean"], "std": data["scaler_std"], "columns": data.get("columns")}
        for inner in (document, document.get("scaler")):
            if isinstance(inner, Mapping) and {"mean", "std"} <= inner.keys():
                return inner
    raise DataError(f"{path.name} holds no scaler", 'expected {"mean": [...], "std": [...], "columns": [...]}')


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}", "check the path given to --scaler") from None
    except ValueError as error:
        raise DataError(f"{path.name} is not JSON: {error}") from None
