"""Questions to train and test adapters on: adult patients on random days, and when each task's first event came.

A question is asked right after the last event of a day that a later day follows. It counts for a task only if the
task's event has not happened yet; the answer is the time to its first event, or to the record's end (censored). Which
days are asked about depends on the subject and the seed, never on an outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from models.motor.vocabulary import Ontology
from recipes.common import generator
from recipes.motor.records import Record
from recipes.motor.settings import Adapters

_YEAR = 365.25 * 86400.0


@dataclass(frozen=True)
class Question:
    """What will happen to `records[record]`, given its events up to `time`."""

    record: int
    time: datetime


@dataclass(frozen=True)
class Labels:
    """One task. rows int64 [N]: places of the questions that count; seconds float64 [N] > 0, event bool [N]."""

    rows: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]
    event: npt.NDArray[np.bool_]


def questions(records: Sequence[Record], wanted: Adapters, seed: int) -> list[Question]:
    """Up to `labels_a_subject` days of each record."""
    found = []
    for i, record in enumerate(records):
        last = {event.time.date(): event.time for event in record.events}  # later events overwrite earlier ones
        ends = [time for time in list(last.values())[:-1] if _years(record, time) >= wanted.youngest_age]
        random = generator(seed, record.subject)
        chosen = random.permutation(len(ends))[: wanted.labels_a_subject]
        found += [Question(i, ends[place]) for place in sorted(chosen.tolist())]
    return found


def _years(record: Record, time: datetime) -> float:
    return (time - record.birth).total_seconds() / _YEAR


def labels(records: Sequence[Record], asked: Sequence[Question], code: str, ontology: Ontology) -> Labels:
    """First event of a code or of one below it, after each question."""
    firsts = [_first(record, code, ontology) for record in records]
    rows, seconds, event = [], [], []
    for row, question in enumerate(asked):
        first, end = firsts[question.record], records[question.record].events[-1].time
        if first is not None and first <= question.time:
            continue
        rows.append(row)
        seconds.append(((first or end) - question.time).total_seconds())
        event.append(first is not None)
    return Labels(np.array(rows, dtype=np.int64), np.array(seconds), np.array(event, dtype=bool))


def _first(record: Record, code: str, ontology: Ontology) -> datetime | None:
    return next((event.time for event in record.events if code in ontology.ancestors(event.code)), None)
