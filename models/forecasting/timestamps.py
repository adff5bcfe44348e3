"""Timestamps as callers write them: ISO 8601 strings or epoch seconds in, the same style out.

Two clocks matter. Regularity is a matter of instants (a daylight-saving change is no gap); calendar marks are a matter
of the wall clock (the models were trained on local time). A stamp without an offset is its own wall clock, unless the
zone is named: then a skipped hour is no gap and a repeated one no duplicate. Days and longer steps are counted on the
wall clock whatever the zone: a day of 23 hours is a day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from models.errors import InputError
from models.forecasting.frequency import Stamps
from models.forecasting.zones import localise, offsets

_NAIVE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?"
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?")
_SECONDS = {"D": 86_400, "m": 60, "s": 1}  # of the finest part that is written
_LENGTHS = {"D": 10, "m": 16, "s": 19}  # characters up to it
_NAIVE_LINES = re.compile(rf"{_NAIVE}(?:\n{_NAIVE})*")
EARLIEST, LATEST = -62135596800, 253402300799  # years 1 to 9999
_HINT = "use ISO 8601 ('2016-07-01T00:00:00', optionally with an offset) or whole epoch seconds, one style throughout"


@dataclass(frozen=True)
class Style:
    """How a caller writes stamps, so that the horizon's can be written alike.

    kind       "epoch" (whole seconds), "naive" (text of a wall clock) or "aware" (text with an offset)
    separator  between date and time
    unit       the finest part that is written: "D", "m" or "s"
    zulu       UTC is written as Z
    """

    kind: str
    separator: str = "T"
    unit: str = "s"
    zulu: bool = False


@dataclass(frozen=True)
class TimeAxis:
    """Stamps of one series.

    instants   int64 [L], epoch seconds; for stamps without an offset and a zone, their wall clock
    offset     seconds east of UTC, int64 [L], or None where the wall clock is all that is known
    style      how they were written
    zone       the time zone the caller named, or None
    by_clock   steps are counted on the wall clock
    """

    instants: Stamps
    offset: Stamps | None
    style: Style
    zone: ZoneInfo | None = None
    by_clock: bool = False

    @property
    def wall_clock(self) -> Stamps:
        return self.instants if self.offset is None else self.instants + self.offset

    @property
    def steps(self) -> Stamps:
        """The stamps whose regularity counts, int64 [L]; further steps are on the same clock."""
        return self.wall_clock if self.by_clock else self.instants

    def clock_of(self, steps: Stamps) -> Stamps:
        """The wall clock at other steps: by the zone, or at the last stamp's offset."""
        return steps if self.by_clock or self.offset is None else steps + self._offsets(steps)

    def last(self, length: int) -> TimeAxis:
        """The axis of the most recent `length` stamps."""
        offset = None if self.offset is None else self.offset[-length:]
        return replace(self, instants=self.instants[-length:], offset=offset)

    def at(self, steps: Stamps) -> TimeAxis:
        """This axis with steps put in: they ascend, and end with its last one.

        A step that was not sent has the zone's offset, or that of the stamp before it.
        """
        if self.offset is None:
            return replace(self, instants=steps)
        before = np.maximum(np.searchsorted(self.steps, steps, side="right") - 1, 0)
        offset = self.offset[before] if self.zone is None else self._offsets(steps)
        return replace(self, instants=steps - offset if self.by_clock else steps, offset=offset)

    def write(self, steps: Stamps) -> list[str] | list[int]:
        """Other steps in this axis's style: in its zone, or at the offset of its last stamp."""
        clock = self.clock_of(steps)
        return self._write(clock - self._offsets(steps) if self.by_clock and self.offset is not None else steps, clock)

    def sent(self, length: int) -> list[str] | list[int]:
        """The first stamps as they came, each at its own offset."""
        return self._write(self.instants[:length], self.wall_clock[:length])

    def _offsets(self, steps: Stamps) -> Stamps:
        """Seconds east of UTC at other steps, int64 [steps]."""
        assert self.offset is not None
        last = np.full(len(steps), self.offset[-1])
        if self.zone is None:
            return last
        if not self.by_clock:
            return offsets(steps, self.zone)
        return offsets(steps - offsets(steps - last, self.zone), self.zone)  # near a change the first guess is off

    def _write(self, instants: Stamps, clock: Stamps) -> list[str] | list[int]:
        if self.style.kind == "epoch":
            return [int(i) for i in instants]
        unit = "s" if (clock % _SECONDS[self.style.unit]).any() else self.style.unit
        text: list[str] = [t[: _LENGTHS[unit]] for t in np.datetime_as_string(clock.astype("M8[s]"), unit="s").tolist()]
        if self.style.separator != "T":
            text = [t.replace("T", self.style.separator) for t in text]
        if self.style.kind == "naive":
            return text
        return [t + self._suffix(int(o)) for t, o in zip(text, clock - instants, strict=True)]

    def _suffix(self, offset: int) -> str:
        if self.style.zulu and not offset:
            return "Z"
        return datetime(2000, 1, 1, tzinfo=timezone(timedelta(seconds=offset))).isoformat()[19:]


def read_time_axis(values: Any, field: str, zone: ZoneInfo | None = None, *, by_clock: bool = False) -> TimeAxis:
    """Read a list of stamps of one style. Raises InputError (timestamps_invalid) naming the first bad index.

    zone      the one text without an offset is of, and whose wall clock counts; None: text is its own wall clock
    by_clock  steps are counted on the wall clock
    """
    axis = replace(_read(values, field), by_clock=by_clock)
    if zone is None or (by_clock and axis.style.kind == "naive"):
        return axis
    instants = localise(axis.instants, zone, field) if axis.style.kind == "naive" else axis.instants
    return replace(axis, instants=instants, offset=offsets(instants, zone), zone=zone)


def _read(values: Any, field: str) -> TimeAxis:
    if not isinstance(values, list) or not values:
        raise InputError("timestamps_invalid", f"{field} must be a non-empty list", field=field, hint=_HINT)
    kinds = set(map(type, values))
    if kinds == {int}:
        return TimeAxis(_bounded(values, field), None, Style("epoch"))
    if kinds == {str}:
        return _read_text(values, field)
    wrong = next(i for i, v in enumerate(values) if type(v) not in (int, str) or type(v) is not type(values[0]))
    raise _refusal(values[wrong], field, wrong)


def _read_text(values: list[str], field: str) -> TimeAxis:
    if _are_naive(values):
        try:
            return TimeAxis(np.array(values, dtype="M8[s]").astype(np.int64), None, _style(values[0], aware=False))
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
        _style(values[0], aware=offset is not None),
    )


def _style(text: str, *, aware: bool) -> Style:
    """Of a stamp that was read."""
    clock = _CLOCK.match(text)
    unit = "D" if len(text) == 10 else "m" if clock and not clock[1] else "s"
    return Style("aware" if aware else "naive", " " if " " in text else "T", unit, zulu=text.endswith("Z"))


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
