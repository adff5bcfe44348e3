"""A MEDS folder -> records: data/<split>.parquet holds events, metadata/codes.parquet the codes' parents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from models.motor.record import in_order
from models.motor.vocabulary import Event

BIRTH = "MEDS_BIRTH"
_COLUMNS = ["subject_id", "time", "code", "numeric_value", "text_value", "unit"]


class RecordError(ValueError):
    """A record cannot be used; the message names the subject and what is wrong, never an event."""


@dataclass(frozen=True)
class Record:
    """One subject's distinct events, in the order in which a service reads them."""

    subject: int
    birth: datetime
    events: list[Event]


def read_split(folder: Path, split: str) -> list[Record]:
    """All records of a split, by subject. Events without time are left out; a subject without birth is refused."""
    table = pq.read_table(folder / "data" / f"{split}.parquet", columns=_COLUMNS)
    subjects, times = (table.column(name).to_numpy() for name in ("subject_id", "time"))
    order = np.argsort(subjects, kind="stable")
    order = order[~np.isnat(times[order])]
    columns = [table.column(name).take(order).to_pylist() for name in _COLUMNS[1:]]
    events = [
        Event(time, code, _number(value), text, unit) for time, code, value, text, unit in zip(*columns, strict=True)
    ]
    starts = np.flatnonzero(np.diff(subjects[order], prepend=subjects[order][:1] - 1))
    bounds = zip(starts, [*starts[1:], len(order)], strict=True)
    return [_record(int(subjects[order[first]]), events[first:last]) for first, last in bounds]


def _record(subject: int, events: list[Event]) -> Record:
    birth = next((event.time for event in events if event.code == BIRTH), None)
    if birth is None:
        raise RecordError(f"subject {subject}: no {BIRTH} event")
    return Record(subject, birth, in_order(events))


def _number(value: float | None) -> float | None:
    """NaN says nothing."""
    return None if value is None or math.isnan(value) else value


def read_parents(folder: Path) -> dict[str, list[str]]:
    """Code -> parent codes, for codes that have any."""
    table = pq.read_table(folder / "metadata" / "codes.parquet", columns=["code", "parent_codes"])
    pairs = zip(table.column("code").to_pylist(), table.column("parent_codes").to_pylist(), strict=True)
    return {code: sorted(parents) for code, parents in pairs if parents}
