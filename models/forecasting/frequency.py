"""Sampling frequencies: fixed steps ("h", "15min", "d", "w") and calendar months ("MS", "QS", "YS").

A frequency knows three things: how to find the stamps that follow a window, whether a window's stamps are regular,
and which calendar marks the papers' "timeF" embedding derives from it. Stamps are int64 epoch seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from models.errors import InputError

Stamps = npt.NDArray[np.int64]

_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MONTHS = {"MS": 1, "QS": 3, "YS": 12}
_ALIASES = {
    "t": "min", "T": "min", "m": "MS", "M": "MS", "ME": "MS", "q": "QS", "Q": "QS", "QE": "QS",
    "y": "YS", "Y": "YS", "YE": "YS", "a": "YS", "A": "YS", "S": "s", "H": "h", "D": "d", "W": "w",
}  # fmt: skip
_MARKS = {
    "s": ("second", "minute", "hour", "weekday", "day", "yearday"),
    "min": ("minute", "hour", "weekday", "day", "yearday"),
    "h": ("hour", "weekday", "day", "yearday"),
    "d": ("weekday", "day", "yearday"),
    "w": ("day", "week"),
    "MS": ("month",),
    "QS": ("month",),
    "YS": (),
}
_HINTS = {
    "timestamps_unsorted": "sort the rows by time, oldest first",
    "timestamps_duplicate": "drop one of them; an hour that clocks repeat needs offsets, or `tz` in a JSON request",
    "timestamps_gap": "fill it, or name a policy in a JSON request's `missing`: ffill or linear; an hour that clocks "
    "skip needs offsets, or `tz`",
    "frequency_mismatch": "resample the series to '{}'",
}


@lru_cache(maxsize=64)
def _ramp(step: int, length: int) -> Stamps:
    ramp = np.arange(length, dtype=np.int64) * step
    ramp.setflags(write=False)
    return ramp


@dataclass(frozen=True)
class Frequency:
    """One sampling frequency.

    unit   "s" | "min" | "h" | "d" | "w" | "MS" | "QS" | "YS"
    count  number of units in one step, >= 1
    """

    unit: str
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Frequency:
        """Read "h", "15min", "3h", "MS" and the official one-letter codes. Raises ValueError naming the text."""
        found = re.fullmatch(r"([1-9]\d{0,5})?([A-Za-z]+)", text)
        unit = _ALIASES.get(found[2], found[2]) if found else ""
        if not found or unit not in _MARKS:
            known = ", ".join(_MARKS)
            raise ValueError(f"frequency {text!r} is not known; use a count and one of {known}, e.g. 'h' or '15min'")
        return cls(unit, int(found[1] or 1))

    def __str__(self) -> str:
        return self.unit if self.count == 1 else f"{self.count}{self.unit}"

    @property
    def marks(self) -> tuple[str, ...]:
        """Names of the calendar marks, in the papers' order."""
        return _MARKS[self.unit]

    @property
    def seconds(self) -> int | None:
        """Length of one step, or None if it depends on the month."""
        return _SECONDS[self.unit] * self.count if self.unit in _SECONDS else None

    @property
    def by_clock(self) -> bool:
        """Whether steps are counted on the wall clock, whose days may have 23 or 25 hours."""
        return self.unit not in ("s", "min", "h")

    def is_regular(self, stamps: Stamps) -> bool:
        """Whether stamps [..., L] are one step apart along their last axis; False, too, for calendar months."""
        step = self.seconds
        if step is None:
            return False
        if stamps.size == stamps.shape[-1]:  # one series, as most requests bring: comparing bytes is quickest
            return bool(stamps.size) and (_ramp(step, stamps.size) + stamps.item(0)).tobytes() == stamps.tobytes()
        return bool((stamps[..., 1:] - stamps[..., :-1] == step).all())

    def after(self, last: int, steps: int) -> Stamps:
        """The `steps` stamps that follow `last`."""
        return self.range(last, steps + 1)[1:]

    def range(self, start: int, length: int) -> Stamps:
        """`length` stamps beginning at `start`."""
        ticks = np.arange(length, dtype=np.int64)
        if self.unit in _SECONDS:
            return start + ticks * (_SECONDS[self.unit] * self.count)
        month = np.datetime64(start, "s").astype("M8[M]")
        offset = start - int(month.astype("M8[s]").astype(np.int64))
        months = month + ticks * (_MONTHS[self.unit] * self.count)
        return np.asarray(months.astype("M8[s]").astype(np.int64) + offset, dtype=np.int64)

    def check(self, stamps: Stamps, field: str) -> None:
        """Refuse stamps that are unsorted, repeated, gapped or of another frequency, naming the first bad index."""
        if np.array_equal(stamps, self.range(int(stamps[0]), len(stamps))):
            return
        moves = np.diff(stamps)
        if (bad := np.flatnonzero(moves < 0)).size:
            raise self._refusal("timestamps_unsorted", field, bad[0] + 1, "is earlier than the one before it")
        if (bad := np.flatnonzero(moves == 0)).size:
            raise self._refusal("timestamps_duplicate", field, bad[0] + 1, "repeats the one before it")
        expected = np.array([self.after(int(s), 1)[0] for s in stamps[:-1]]) - stamps[:-1]
        bad = np.flatnonzero(moves != expected)
        first = int(bad[0])
        steps = moves[first] / expected[first]
        if len(bad) <= len(moves) // 2 and steps == int(steps):
            raise self._refusal("timestamps_gap", field, first + 1, f"comes after a gap of {int(steps) - 1} missing")
        raise self._refusal(
            "frequency_mismatch",
            field,
            first + 1,
            f"comes {moves[first]} s after the one before it, not {expected[first]} s",
        )

    def _refusal(self, code: str, field: str, index: int, what: str) -> InputError:
        return InputError(
            code,
            f"timestamp {int(index)} {what}; the model expects one every {self}",
            field=f"{field}[{int(index)}]",
            hint=_HINTS[code].format(self),
        )
