"""A patient's events as bags of dictionary tokens (femr 0.2.3; the layout of `dictionary.msgpack`).

An event's bag holds its code and every ancestor that is in the dictionary, each weighing 1 / their number, and a token
each for its numeric value (half-open bins), its text value and its unit, weighing 1. An event is dropped if it has no
token, or if all of its tokens were already seen on the same calendar day. Weights and standardised ages are rounded to
half precision, as the published pipeline stores them.

Whose values an entry of the dictionary speaks of is a matter of layout (`models.motor.values`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from models.motor.values import values_of

SECONDS_A_DAY = 86400.0
Bag = tuple[tuple[int, ...], tuple[float, ...]]  # token ids, ascending, and their weights
_NOTHING: Bag = ((), ())


class DictionaryError(ValueError):
    """A dictionary cannot be used; the message says what is wrong with it."""


class Event(NamedTuple):
    """One entry of a record, under MEDS names. time: without zone, all of one record in the same one.

    A tuple, as a record has thousands: they are made, compared and hashed in a third of a dataclass's time.
    """

    time: datetime
    code: str
    numeric_value: float | None = None
    text_value: str | None = None
    unit: str | None = None


class Position(NamedTuple):
    """One input position of the network; `event` is the index of the event it was made of."""

    event: int
    time: datetime
    tokens: tuple[int, ...]
    weights: tuple[float, ...]
    age_days: float
    standardised_age: float


class Ontology:
    """Code -> parent codes; `ancestors` holds the code itself, too."""

    def __init__(self, parents: Mapping[str, Sequence[str]]) -> None:
        self._parents = parents
        self._known: dict[str, frozenset[str]] = {}

    def __contains__(self, code: str) -> bool:
        return code in self._parents

    def ancestors(self, code: str) -> frozenset[str]:
        """The code and everything above it; a cycle in the map is walked once."""
        if code not in self._parents:  # not kept: callers may ask for any number of unknown codes
            return frozenset((code,))
        found = self._known.get(code)
        if found is None:
            seen, open_codes = {code}, [code]
            while open_codes:
                above = [parent for parent in self._parents.get(open_codes.pop(), ()) if parent not in seen]
                seen.update(above)
                open_codes += above
            found = self._known[code] = frozenset(seen)
        return found


class Vocabulary:
    """A dictionary ready to look up. Token ids are positions in its `vocab`."""

    def __init__(self, dictionary: Mapping[str, Any], ontology: Ontology) -> None:
        self.ontology = ontology
        entries = _entries(dictionary)
        self.size = len(entries)
        self.codes = {str(e["code_string"]): i for i, e in enumerate(entries) if e.get("type") == "code"}
        self._values = values_of(entries)
        self.hierarchical = bool(dictionary.get("is_hierarchical", True))
        self._code_bags: dict[str, Bag] = {}
        self._mean, self._std = _age_statistics(dictionary)

    def bag(self, event: Event) -> Bag:
        """Token ids, ascending, and their weights; empty if nothing of the event is known."""
        values = self._values.tokens(event.code, event.numeric_value, event.text_value, event.unit)
        if self._values.instead_of_code and (event.numeric_value is not None or event.text_value is not None):
            return _bag(dict.fromkeys(values, 1.0))
        of_code = self._code_bag(event.code)
        if not values:
            return of_code
        return _bag(dict(zip(*of_code, strict=True)) | dict.fromkeys(values, 1.0))

    def _code_bag(self, code: str) -> Bag:
        """Kept for codes that are known: callers may ask for any number of unknown ones."""
        found = self._code_bags.get(code)
        if found is None:
            names = self.ontology.ancestors(code) if self.hierarchical else (code,)
            known = [self.codes[name] for name in names if name in self.codes]
            if not known:
                return _NOTHING
            found = _bag(dict.fromkeys(known, _half(1 / len(known))))
            if code in self.codes or code in self.ontology:
                self._code_bags[code] = found
        return found

    def positions(self, events: Sequence[Event], birth: datetime, first: int = 0) -> list[Position]:
        """The positions of events in time order, from the event `first` on, which begins a day."""
        kept: list[tuple[int, Event, Bag]] = []
        day, seen = None, set[int]()
        for i in range(first, len(events)):
            event = events[i]
            if (date := event.time.date()) != day:
                day, seen = date, set()
            bag = self.bag(event)
            if not bag[0] or seen.issuperset(bag[0]):
                continue
            seen.update(bag[0])
            kept.append((i, event, bag))
        ages = np.array([(event.time - birth).total_seconds() for _, event, _ in kept])
        days = (ages / SECONDS_A_DAY).astype(np.float32).tolist()
        standardised = ((ages - self._mean) / self._std).astype(np.float16).tolist()
        return [
            Position(i, event.time, tokens, weights, days[n], standardised[n])
            for n, (i, event, (tokens, weights)) in enumerate(kept)
        ]


def _bag(found: Mapping[int, float]) -> Bag:
    tokens = tuple(sorted(found))
    return tokens, tuple([found[token] for token in tokens])


def position_before(positions: Sequence[Position], time: datetime) -> int | None:
    """The last position not after a time (its own moment included); None if there is none."""
    return next((i for i in range(len(positions) - 1, -1, -1) if positions[i].time <= time), None)


@dataclass(frozen=True)
class Target:
    """What a training position should predict: seconds to the record's end, and to each task that lies ahead."""

    position: int
    censor_seconds: float
    events: dict[str, float]


def training_targets(
    events: Sequence[Event], positions: Sequence[Position], tasks: Sequence[str], ontology: Ontology
) -> list[Target]:
    """Targets at the last position of every calendar day that a later day follows, where a task event lies ahead."""
    end = events[-1].time
    happened = [(event.time, ontology.ancestors(event.code)) for event in events]
    found = []
    for i, (here, following) in enumerate(pairwise(positions)):
        if following.time.date() <= here.time.date():
            continue
        ahead: dict[str, float] = {}
        for time, codes in happened:
            for task in tasks:
                if time > here.time and task in codes and task not in ahead:
                    ahead[task] = (time - here.time).total_seconds()
        if ahead:
            found.append(Target(i, (end - here.time).total_seconds(), ahead))
    return found


def _entries(dictionary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    vocab = dictionary.get("vocab")
    if not isinstance(vocab, list) or not vocab or not all(isinstance(entry, Mapping) for entry in vocab):
        raise DictionaryError("vocab: expected a list of entries with a type")
    return vocab


def _age_statistics(dictionary: Mapping[str, Any]) -> tuple[float, float]:
    """Mean and deviation of ages in seconds."""
    stats = dictionary.get("age_stats")
    stats = stats.get("age", stats) if isinstance(stats, Mapping) else {}
    try:
        mean, std = float(stats["mean"]), float(stats["std"])
    except (KeyError, TypeError, ValueError):
        raise DictionaryError("age_stats: expected mean and std in seconds") from None
    if not (math.isfinite(mean) and std > 0):
        raise DictionaryError("age_stats: expected a finite mean and a std above 0")
    return mean, std


def _half(value: float) -> float:
    return float(np.float16(value))
