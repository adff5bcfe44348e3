"""Pretraining targets: at the last position of each day, the time to every task's next event or to the record's end.

The same targets as `models.motor.vocabulary.training_targets`, for many tasks at once: events are walked from the
newest back, so that each is looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.motor.vocabulary import Ontology, Position, Vocabulary
from recipes.motor.records import Record
from recipes.motor.settings import Tasks

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class History:
    """One subject as the network reads it (n positions, bags of K), and what lies ahead at m of them.

    tokens int64 [n, K], weights float32 [n, K], ages float32 [n] in days, times float32 [n] standardised
    places int64 [m]; until float32 [m, t] seconds to the event, or to the record's end; event bool [m, t]
    """

    tokens: npt.NDArray[np.int64]
    weights: Floats
    ages: Floats
    times: Floats
    places: npt.NDArray[np.int64]
    until: Floats
    event: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TaskPlan:
    """codes pretrained on, their published description, and the time bins' starts in seconds."""

    codes: list[str]
    info: list[list[Any]]
    starts: list[float]


def candidates(dictionary: dict[str, Any], count: int) -> list[str]:
    """The first codes of a dictionary: its most informative ones."""
    codes = [entry["code_string"] for entry in dictionary["vocab"] if entry["type"] == "code"]
    return codes[:count]


def history(record: Record, vocabulary: Vocabulary, tasks: Sequence[str], ontology: Ontology) -> History:
    """Positions and targets of one record; a record of which nothing is known has no positions."""
    positions = vocabulary.positions(record.events, record.birth)
    places = _ends_of_days(positions)
    until, event = _ahead(record, [positions[i] for i in places], {code: i for i, code in enumerate(tasks)}, ontology)
    some = event.any(axis=1) if len(tasks) else np.zeros(len(places), dtype=bool)
    tokens, weights = bags(positions)
    ages = np.array([p.age_days for p in positions], dtype=np.float32)
    times = np.array([p.standardised_age for p in positions], dtype=np.float32)
    return History(tokens, weights, ages, times, np.array(places, dtype=np.int64)[some], until[some], event[some])


def bags(positions: Sequence[Position]) -> tuple[npt.NDArray[np.int64], Floats]:
    """Padded with token 0 of weight 0."""
    size = max((len(p.tokens) for p in positions), default=1)
    tokens, weights = np.zeros((len(positions), size), np.int64), np.zeros((len(positions), size), np.float32)
    for i, position in enumerate(positions):
        tokens[i, : len(position.tokens)] = position.tokens
        weights[i, : len(position.weights)] = position.weights
    return tokens, weights


def _ends_of_days(positions: Sequence[Position]) -> list[int]:
    """Positions that a later day follows."""
    days = [position.time.date() for position in positions]
    return [i for i in range(len(days) - 1) if days[i + 1] > days[i]]


def _ahead(
    record: Record, asked: Sequence[Position], index: dict[str, int], ontology: Ontology
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Seconds to the next event of each task after each asked position, or to the record's end: [m, t] twice."""
    until = np.zeros((len(asked), len(index)), dtype=np.float64)
    following = np.full(len(index), np.inf)
    unseen, events = len(record.events), record.events
    for row in range(len(asked) - 1, -1, -1):
        here = asked[row].time
        while unseen and events[unseen - 1].time > here:
            unseen -= 1
            hits = [index[code] for code in ontology.ancestors(events[unseen].code) if code in index]
            following[hits] = (events[unseen].time - record.birth).total_seconds()
        until[row] = following - (here - record.birth).total_seconds()
    event = np.isfinite(until)
    left = np.array([(events[-1].time - position.time).total_seconds() for position in asked])
    return np.where(event, until, left.reshape(-1, 1)).astype(np.float32), event


def plan(histories: Sequence[History], codes: Sequence[str], wanted: Tasks) -> tuple[TaskPlan, list[History]]:
    """Tasks worth training on and time bins with equally many events; histories come back with those tasks only."""
    until, event = (np.concatenate([getattr(h, name) for h in histories]) for name in ("until", "event"))
    share, mean = event.mean(axis=0), until.mean(axis=0, dtype=np.float64)
    kept = np.flatnonzero(share >= wanted.least_share)
    names = [codes[i] for i in kept.tolist()]
    starts = [0.0, *np.quantile(until[:, kept][event[:, kept]], np.arange(1, wanted.bins) / wanted.bins).tolist()]
    happened = event.sum(axis=0)
    info = [
        [name, float(share[i] / mean[i]), int(len(event) - happened[i]), int(happened[i]), float(mean[i])]
        for name, i in zip(names, kept.tolist(), strict=True)
    ]
    return TaskPlan(names, info, starts), [_only(h, kept) for h in histories]


def _only(one: History, kept: npt.NDArray[np.int64]) -> History:
    until, event = one.until[:, kept], one.event[:, kept]
    some = event.any(axis=1)
    return History(one.tokens, one.weights, one.ages, one.times, one.places[some], until[some], event[some])
