"""Calendar marks of the official "timeF" embedding: each mark is scaled to [-0.5, 0.5].

For hourly data, in this order: hour/23, weekday/6 (Monday = 0), (day of month - 1)/30, (day of year - 1)/365, each
minus 0.5; finer frequencies put minute/59 (and second/59) in front, coarser ones keep the tail.
Marks describe the wall clock, so stamps are local time written as epoch seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.forecasting.frequency import Frequency, Stamps

Marks = npt.NDArray[np.float32]
BLOCK = 512  # stamps whose marks are computed together; the longest window that is cut from a table

Clock = npt.NDArray[np.datetime64]


def calendar_marks(stamps: Stamps, frequency: Frequency) -> Marks:
    """Marks of the stamps.

    stamps  int64 [L], wall clock as epoch seconds
    returns float32 [L, M], each in [-0.5, 0.5]; M = len(frequency.marks)

    Regular stamps of one step, which is nearly all of them, are cut from tables of whole blocks of time: neighbouring
    windows share a table, so a busy server computes almost no calendar at all.
    """
    if not _in_tables(stamps, frequency):
        return _marks_of(stamps, frequency)
    return _cut(int(stamps[0]), len(stamps), frequency)


def batch_marks(stamps: Stamps, frequency: Frequency) -> Marks:
    """The same for a batch: stamps int64 [B, L] -> float32 [B, L, M]."""
    if not _in_tables(stamps, frequency):
        return np.stack([calendar_marks(row, frequency) for row in stamps])
    rows, length = stamps.shape
    marks = np.empty((rows, length, len(frequency.marks)), dtype=np.float32)
    for row, start in zip(marks, stamps[:, 0].tolist(), strict=True):
        row[:] = _cut(start, length, frequency)
    return marks


def _in_tables(stamps: Stamps, frequency: Frequency) -> bool:
    """Whether the marks of stamps [..., L] can be cut from tables."""
    known = frequency.seconds is not None and "week" not in frequency.marks
    return known and stamps.shape[-1] <= BLOCK and frequency.is_regular(stamps)


def _cut(start: int, length: int, frequency: Frequency) -> Marks:
    tick, phase = divmod(start, frequency.seconds or 1)
    block, first = divmod(tick, BLOCK)
    return _table(block, phase, frequency)[first : first + length]


@lru_cache(maxsize=256)  # 1,024 hourly stamps cost 16 kB an entry
def _table(block: int, phase: int, frequency: Frequency) -> Marks:
    """Marks of two neighbouring blocks: every window that starts in the first one lies within them."""
    start = block * BLOCK * (frequency.seconds or 1) + phase
    marks = _marks_of(frequency.range(start, 2 * BLOCK), frequency)
    marks.setflags(write=False)
    return marks


def _marks_of(stamps: Stamps, frequency: Frequency) -> Marks:
    clock = stamps.astype("M8[s]")
    marks = np.empty((len(clock), len(frequency.marks)), dtype=np.float32)
    for i, name in enumerate(frequency.marks):
        marks[:, i] = _MARK[name](clock) - 0.5
    return marks


def _since(clock: Clock, coarse: str, fine: str) -> npt.NDArray[np.float64]:
    """Whole `fine` units passed since the start of the `coarse` unit."""
    passed = clock.astype(f"M8[{fine}]") - clock.astype(f"M8[{coarse}]").astype(f"M8[{fine}]")
    return np.asarray(passed.astype(np.float64))


def _weekday(clock: Clock) -> npt.NDArray[np.float64]:
    day = clock.astype("M8[D]").astype(np.int64)  # day 0 of the epoch was a Thursday
    return np.asarray((day + 3) % 7 / 6)


def _iso_week(clock: Clock) -> npt.NDArray[np.float64]:
    weeks = [day.isocalendar().week for day in clock.astype("M8[D]").tolist()]
    return (np.array(weeks, dtype=np.float64) - 1) / 52


_MARK: dict[str, Callable[[Clock], npt.NDArray[np.float64]]] = {
    "second": lambda clock: _since(clock, "m", "s") / 59,
    "minute": lambda clock: _since(clock, "h", "m") / 59,
    "hour": lambda clock: _since(clock, "D", "h") / 23,
    "weekday": _weekday,
    "day": lambda clock: _since(clock, "M", "D") / 30,
    "yearday": lambda clock: _since(clock, "Y", "D") / 365,
    "week": _iso_week,
    "month": lambda clock: _since(clock, "Y", "M") / 11,
}
