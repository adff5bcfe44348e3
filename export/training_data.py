"""The training csv: which columns in which order, on which clock.

In   a csv with a header, one row per step: a time column (`date`, or a first column that holds no numbers), numbers
Out  values float64 [rows, C] in file order, stamps int64 [rows] (wall clock as epoch seconds), sampling frequency

Official test programs move the target column to the end; files of the benchmark have it there already. Whoever
trained on another order names it with `columns`. Nothing is repaired: a hole in values or calendar is refused with
its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from export.artifact import sha256_file
from export.errors import DataError, OptionError
from models.errors import InputError
from models.forecasting.frequency import Frequency, Stamps

TIME_COLUMN = "date"
_UNITS = (("w", 604800), ("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_MONTHLY = ("MS", "QS", "YS")


@dataclass(frozen=True)
class TrainingTable:
    """A training file in memory; stamps and frequency are None if it has no time column (frequency may be given)."""

    file: str
    sha256: str
    columns: tuple[str, ...]
    values: npt.NDArray[np.float64]
    stamps: Stamps | None
    frequency: Frequency | None


def read_table(path: Path, *, columns: Sequence[str] | None = None, freq: str | None = None) -> TrainingTable:
    """Read a training csv. columns: choose and order them; freq: state the frequency instead of detecting it.

    Raises DataError naming file, column and line of what cannot be used.
    """
    frame = _read_csv(path)
    time = _time_column(frame)
    names = _choose([c for c in frame.columns if c != time], columns, path)
    values = np.column_stack([_numbers(frame[name], name, path) for name in names])
    stamps = None if time is None else _stamps(frame[time], path)
    frequency = parse_frequency(freq) if freq else None
    if frequency is None and stamps is not None:
        frequency = detect_frequency(stamps, path.name)
    return TrainingTable(path.name, sha256_file(path), tuple(names), values, stamps, frequency)


def parse_frequency(text: str) -> Frequency:
    """`Frequency.parse`, raising OptionError."""
    try:
        return Frequency.parse(text)
    except ValueError as error:
        raise OptionError(f"--freq: {error}") from None


def detect_frequency(stamps: Stamps, file: str) -> Frequency:
    """The frequency every stamp follows. Raises DataError naming the first line that breaks it."""
    if len(stamps) < 3:
        raise DataError(f"{file}: {len(stamps)} rows are too few to tell a frequency", "state it with --freq")
    for unit in _MONTHLY:
        for count in range(1, 12):
            monthly = Frequency(unit, count)
            if np.array_equal(stamps, monthly.range(int(stamps[0]), len(stamps))):
                return monthly
    step = int(np.median(np.diff(stamps)))
    unit, seconds = next(((u, s) for u, s in _UNITS if step > 0 and step % s == 0), ("s", 1))
    frequency = Frequency(unit, max(step // seconds, 1))
    try:
        frequency.check(stamps, "row")
    except InputError as error:
        where = error.field or "row[0]"
        line = int(where[where.index("[") + 1 : -1]) + 2
        message = error.message.replace("the model expects", "expected")
        raise DataError(
            f"{file} line {line}: the calendar is not regular: {message}",
            "sort, fill or resample the file, or state the frequency the network was trained for with --freq",
        ) from None
    return frequency


def _read_csv(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}", "check the path given to --data") from None
    except (ValueError, UnicodeError) as error:  # pandas' parser errors are ValueErrors
        raise DataError(f"{path.name} is not a csv: {str(error).splitlines()[0]}", "expected a header line") from None
    if frame.empty:
        raise DataError(f"{path.name} holds no rows", "name the csv the network was trained on")
    if all(_is_number(str(name)) for name in frame.columns):
        raise DataError(f"{path.name} has no header line", "put a line with the column names on top of a copy")
    return frame


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _time_column(frame: pd.DataFrame) -> str | None:
    if TIME_COLUMN in frame.columns:
        return TIME_COLUMN
    first = str(frame.columns[0])
    return None if pd.api.types.is_numeric_dtype(frame[first]) else first


def _choose(present: list[str], wanted: Sequence[str] | None, path: Path) -> list[str]:
    chosen = present if wanted is None else list(wanted)
    if missing := [name for name in chosen if name not in present]:
        raise DataError(f"{path.name} has no column {missing[0]!r}", f"it has: {', '.join(present)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise DataError(f"{path.name}: columns must be one or more different names, got {', '.join(chosen) or 'none'}")
    return chosen


def _numbers(column: pd.Series[float], name: str, path: Path) -> npt.NDArray[np.float64]:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        cell = column.iloc[int(bad[0])]
        found = "an empty cell" if pd.isna(cell) else repr(str(cell))
        raise DataError(
            f"{path.name} line {int(bad[0]) + 2}, column {name}: {found} is not a finite number",
            "fill the gap, or leave the column out with --columns",
        )
    return numbers


def _stamps(column: pd.Series[str], path: Path) -> Stamps:
    parsed = pd.to_datetime(column, errors="coerce")
    bad = np.flatnonzero(parsed.isna().to_numpy())
    if bad.size:
        line = int(bad[0]) + 2
        raise DataError(f"{path.name} line {line}: {str(column.iloc[line - 2])!r} is not a date", "use ISO 8601 dates")
    if parsed.dt.tz is not None:
        parsed = parsed.dt.tz_localize(None)  # the calendar marks are of the wall clock
    return parsed.to_numpy(dtype="datetime64[s]").astype(np.int64)
