"""A record as of a moment: which events count, in which order, and what became of the others.

The published program attends to whatever it is given in whatever order; these rules stand before it. In this order:

    1  events later than the prediction time are dropped (the time itself is included)
    2  strict_same_day drops events at midnight of the prediction's own day: a date may hide a later hour
    3  equal events are one; the rest is sorted by time, at one time birth first, then by code, values and unit
    4  birth: an event, or a date given beside the record, which then stands for the event
    5  refused: events before birth, a death at or before the prediction, more than 125 years, nothing left to read
    6  positions (`Vocabulary.positions`); what lies before the network's reach is cut off, which changes nothing
So an answer depends on the set of events up to the prediction time, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

from models.errors import InputError
from models.motor.vocabulary import SECONDS_A_DAY, Event, Position, Vocabulary

MOST_AGE_DAYS = 125 * 365.25
MIDNIGHT = time()


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of the events; `received` is the sum of the others."""

    received: int
    used: int
    dropped_future: int
    dropped_same_day: int
    without_time: int
    duplicates: int
    unknown: int
    repeated: int
    truncated: int


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a caller knows of one patient.

    events  None for one without a time (a static measurement)
    birth   None: an event says it
    """

    events: Sequence[Event | None]
    birth: datetime | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How records are read by one model.

    birth_codes, death_codes  codes of those events; the first birth code is what a bare date of birth stands for
    reach                     positions that can influence an answer; 0: all
    limit                     positions the network takes
    """

    vocabulary: Vocabulary
    birth_codes: tuple[str, ...]
    death_codes: tuple[str, ...]
    reach: int
    limit: int


@dataclass(frozen=True, kw_only=True)
class History:
    """What the network reads, and what became of the rest."""

    positions: list[Position]
    counts: Counts
    age_days: float
    last_event_days: float


def in_order(events: Sequence[Event], birth_codes: Collection[str] = ("MEDS_BIRTH",)) -> list[Event]:
    """Distinct events in the one order that answers are computed in; training data should be in it, too."""
    return sorted(dict.fromkeys(events), key=lambda event: _order(event, birth_codes))


def read_history(record: Record, reading: Reading, at: datetime, *, strict: bool, field: str) -> History:
    """The record as of a moment. Raises InputError naming events by their index in the record, never by content."""
    known = [event for event in record.events if event is not None]
    past = [event for event in known if event.time <= at]
    kept = [event for event in past if not (strict and _may_be_later(event, at, reading))]
    distinct = in_order(kept, reading.birth_codes)
    birth, stated = _birth(record, distinct, at, reading, field)
    _check(record, distinct, birth, at, reading, field)
    read = distinct if stated else [Event(birth, reading.birth_codes[0]), *distinct]
    positions, first = _recent(read, birth, reading)
    own = [p for p in positions if stated or p.event > 0]
    if not own:
        raise _nothing(distinct, field)
    used, cut = _within_reach(positions, own, reading, field)
    added = len(read) - len(distinct)
    unread = max(0, first - added)
    unknown = _unknown(read, positions, max(first, added), reading.vocabulary)
    counts = Counts(
        received=len(record.events),
        used=len(own) - cut,
        dropped_future=len(known) - len(past),
        dropped_same_day=len(past) - len(kept),
        without_time=len(record.events) - len(known),
        duplicates=len(kept) - len(distinct),
        unknown=unknown,
        repeated=len(distinct) - unread - len(own) - unknown,
        truncated=cut + unread,
    )
    return History(
        positions=used,
        counts=counts,
        age_days=_days(birth, at),
        last_event_days=_days(used[-1].time, at),
    )


def _order(event: Event, birth_codes: Collection[str]) -> tuple[Any, ...]:
    value, text, unit = event.numeric_value, event.text_value, event.unit
    return (
        event.time,
        event.code not in birth_codes,
        event.code,
        value is not None,
        value or 0.0,
        text is not None,
        text or "",
        unit is not None,
        unit or "",
    )


def _may_be_later(event: Event, at: datetime, reading: Reading) -> bool:
    """Whether an event is a mere date of the prediction's day; a birth tells nothing about the day."""
    midnight = event.time.date() == at.date() and event.time.time() == MIDNIGHT
    return midnight and event.code not in reading.birth_codes


def _birth(record: Record, distinct: list[Event], at: datetime, reading: Reading, field: str) -> tuple[datetime, bool]:
    """The moment of birth, and whether an event states it."""
    times = {event.time for event in distinct if event.code in reading.birth_codes}
    if len(times) > 1:
        raise InputError(
            "birth_conflict", "the record holds births at different times", field=f"{field}.events",
            hint="send one birth event",
        )  # fmt: skip
    stated = next(iter(times), None)
    if stated is not None and record.birth is not None and stated.date() != record.birth.date():
        raise InputError(
            "birth_conflict", "birth and the record's birth event are not on one day", field=f"{field}.birth",
            hint="send one of them",
        )  # fmt: skip
    birth = stated if stated is not None else record.birth
    later = any(event is not None and event.code in reading.birth_codes for event in record.events)
    if (birth is None and later) or (birth is not None and birth > at):
        raise InputError(
            "prediction_before_birth", "the prediction time lies before birth", field=f"{field}.prediction_time"
        )
    if birth is None:
        raise InputError(
            "birth_missing", "there is no birth, so no age is known", field=f"{field}.birth",
            hint=f"send birth, or an event {reading.birth_codes[0]}",
        )  # fmt: skip
    return birth, stated is not None


def _check(record: Record, distinct: list[Event], birth: datetime, at: datetime, reading: Reading, field: str) -> None:
    for i, event in enumerate(record.events):
        if event is not None and event.time < birth:
            raise InputError(
                "event_before_birth", "the event lies before birth", field=f"{field}.events[{i}].time",
                hint="correct the birth, or leave the event out",
            )  # fmt: skip
    if any(event.code in reading.death_codes for event in distinct):
        raise InputError(
            "prediction_after_death", "the patient died at or before the prediction time",
            field=f"{field}.prediction_time", hint="predict as of an earlier moment",
        )  # fmt: skip
    if _days(birth, at) > MOST_AGE_DAYS:
        raise InputError(
            "age_out_of_range", "the patient would be older than 125 years at the prediction time",
            field=f"{field}.prediction_time", hint="check birth and prediction_time",
        )  # fmt: skip


def _nothing(distinct: list[Event], field: str) -> InputError:
    if not distinct:
        return InputError(
            "history_empty", "no event is left at or before the prediction time", field=f"{field}.events",
            hint="send the record's past; events of the prediction's day count unless strict_same_day is set",
        )  # fmt: skip
    return InputError(
        "history_unknown", "nothing of the events is in the model's dictionary", field=f"{field}.events",
        hint="check the vocabularies: the model knows those it was trained on",
    )  # fmt: skip


def _recent(read: list[Event], birth: datetime, reading: Reading) -> tuple[list[Position], int]:
    """Positions of the last events, enough to fill the reach, and the first event that was looked at: it begins a day.

    Most of a very long record is too long ago; it need not become positions.
    """
    wanted = 2 * reading.reach or len(read)
    while True:
        first = max(0, len(read) - wanted)
        while first and read[first - 1].time.date() == read[first].time.date():
            first -= 1
        positions = reading.vocabulary.positions(read, birth, first)
        if not first or len(positions) >= reading.reach:
            return positions, first
        wanted *= 2


def _within_reach(
    positions: list[Position], own: list[Position], reading: Reading, field: str
) -> tuple[list[Position], int]:
    """The positions that count, and how many events were cut off."""
    used = positions[-reading.reach :] if reading.reach else positions
    if len(used) > reading.limit:
        raise InputError(
            "history_too_long", f"the history has {len(used)} positions, the model takes {reading.limit}",
            field=f"{field}.events", hint="leave the oldest events out",
        )  # fmt: skip
    first = positions[len(positions) - len(used)]
    return used, sum(p.event < first.event for p in own)


def _unknown(read: list[Event], positions: list[Position], first: int, vocabulary: Vocabulary) -> int:
    """How many events from `first` on have no token at all."""
    used = {p.event for p in positions}
    return sum(i not in used and not vocabulary.bag(read[i])[0] for i in range(first, len(read)))


def _days(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds() / SECONDS_A_DAY
