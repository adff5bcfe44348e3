"""Timestamps as callers write them: ISO 8601 strings or epoch seconds in, the same style out.

Two clocks matter. Regularity is a matter of instants (a daylight-saving change is no gap); calendar marks are a matter
of the wall clock (the models were trained on local time). A stamp without an offset is its own wall clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np

from models.errors import InputError
from models.forecasting.frequency import Stamps

_NAIVE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?"
_NAIVE_LINES = re.compile(rf"{_NAIVE}(?:\n{_NAIVE})*")
EARLIEST, LATEST = -62135596800, 253402300799  # years 1 to 9999
_HINT = "use ISO 8601 ('2016-07-01T00:00:00', optionally with an offset) or whole epoch seconds, one style throughout"


@dataclass(frozen=True)
class TimeAxis:
    """Stamps of one series.

    instants   int64 [L], epoch seconds; for stamps without an offset, their wall clock
    offset     seconds east of UTC, int64 [L], or None for stamps without an offset and for epoch seconds
    as_text    whether the caller wrote ISO strings; separator is "T" or " "
    """

    instants: Stamps
    offset: Stamps | None
    as_text: bool
    separator: str = "T"

    @property
    def wall_clock(self) -> Stamps:
        return self.instants if self.offset is None else self.instants + self.offset

    def last(self, length: int) -> TimeAxis:
        """The axis of the most recent `length` stamps."""
        offset = None if self.offset is None else self.offset[-length:]
        return TimeAxis(self.instants[-length:], offset, self.as_text, self.separator)

    def write(self, instants: Stamps) -> list[str] | list[int]:
        """Other instants in this axis's style, at the offset of its last stamp."""
        if not self.as_text:
            return [int(i) for i in instants]
        if self.offset is None:
            text: list[str] = np.datetime_as_string(instants.astype("M8[s]"), unit="s").tolist()
            return text if self.separator == "T" else [t.replace("T", " ") for t in text]
        zone = timezone(timedelta(seconds=int(self.offset[-1])))
        return [datetime.fromtimestamp(int(i), zone).isoformat(self.separator) for i in instants]

    def sent(self, length: int) -> list[str] | list[int]:
        """The first stamps as they came, each at its own offset."""
        if self.offset is None:
            return self.write(self.instants[:length])
        zones = [timezone(timedelta(seconds=int(offset))) for offset in self.offset[:length]]
        pairs = zip(self.instants[:length], zones, strict=True)
        return [datetime.fromtimestamp(int(i), zone).isoformat(self.separator) for i, zone in pairs]


def read_time_axis(values: Any, field: str) -> TimeAxis:
    """Read a list of stamps of one style. Raises InputError (timestamps_invalid) naming the first bad index."""
    if not isinstance(values, list) or not values:
        raise InputError("timestamps_invalid", f"{field} must be a non-empty list", field=field, hint=_HINT)
    kinds = set(map(type, values))
    if kinds == {int}:
        return TimeAxis(_bounded(values, field), None, as_text=False)
    if kinds == {str}:
        return _read_text(values, field)
    wrong = next(i for i, v in enumerate(values) if type(v) not in (int, str) or type(v) is not type(values[0]))
    raise _refusal(values[wrong], field, wrong)


def _read_text(values: list[str], field: str) -> TimeAxis:
    separator = " " if " " in values[0] else "T"
    if _are_naive(values):
        try:
            return TimeAxis(np.array(values, dtype="M8[s]").astype(np.int64), None, True, separator)
        except ValueError:  # a pattern match need not be a date: 2016-02-30
            pass
    moments = [_moment(text, field, i) for i, text in enumerate(values)]
    aware = [m.tzinfo is not None for m in moments]
    if any(aware) != all(aware):
        wrong = aware.index(not aware[0])
        raise _refusal(values[wrong], field, wrong)
    offset = [int(m.utcoffset().total_seconds()) for m in moments] if aware[0] else None  # type: ignore[union-attr]
    instants = [int((m if m.tzinfo else m.replace(tzinfo=UTC)).timestamp()) for m in moments]
    return TimeAxis(
        np.array(instants, dtype=np.int64),
        None if offset is None else np.array(offset, dtype=np.int64),
        True,
        separator,
    )


def _are_naive(values: list[str]) -> bool:
    """Whether all are dates, maybe with a time, and without an offset; in one match instead of one each."""
    lines = "\n".join(values)
    return _NAIVE_LINES.fullmatch(lines) is not None and lines.count("\n") == len(values) - 1


def _moment(text: str, field: str, index: int) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _refusal(text, field, index) from None
    if moment.microsecond:
        raise _refusal(text, field, index)
    return moment


def _bounded(values: list[int], field: str) -> Stamps:
    if min(values) < EARLIEST or max(values) > LATEST:  # before numpy, whose integers would overflow
        wrong = next(i for i, v in enumerate(values) if not EARLIEST <= v <= LATEST)
        raise _refusal(values[wrong], field, wrong)
    return np.array(values, dtype=np.int64)


def check_instants(instants: Stamps, field: str) -> None:
    """Refuse epoch seconds outside the years 1 to 9999 (milliseconds, for one). Raises InputError."""
    outside = (instants < EARLIEST) | (instants > LATEST)
    if outside.any():
        wrong = int(np.flatnonzero(outside)[0])
        raise _refusal(int(instants[wrong]), field, wrong)


def _refusal(value: Any, field: str, index: int) -> InputError:
    shown = repr(value) if len(repr(value)) <= 40 else repr(value)[:37] + "..."
    return InputError(
        "timestamps_invalid", f"timestamp {index} cannot be read: {shown}", field=f"{field}[{index}]", hint=_HINT
    )
