"""The records a MOTOR certificate is made on: wholly made up, of the dictionary's own codes.

Raw cases are requests as a client sends them and pass through the whole served pipeline; the others are positions and
vary the size of bags, which no request can choose. Everything comes from a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from models.motor.spec import EhrSpec
from models.motor.vocabulary import Event, Position, Vocabulary

SEED = 20240401
BIRTH = date(1930, 6, 1)
AT = datetime(2021, 6, 1)
LONG = 600  # positions of a long case where nothing bounds the reach
_BAGS = (1, 17)


@dataclass(frozen=True, kw_only=True)
class EhrCase:
    """One case: a request, or positions [B][L] where no request leads there."""

    name: str
    request: dict[str, Any] | None = None
    positions: list[list[Position]] | None = None


def plan_cases(vocabulary: Vocabulary, spec: EhrSpec, window: int) -> list[EhrCase]:
    """Batches of 1 and 7, a single token, just beyond the window, just beyond the reach, ages of 0 and 124 years."""
    make = _Maker(vocabulary, spec)
    long = min(spec.reach + 9, 8192) if spec.reach else LONG
    cases = [
        make.case("single-token", [1]),
        make.case("batch-1", [40]),
        make.case("batch-7", [3, 1, 17, 8, 33, 12, 5]),
        make.case("beyond-the-window", [window + 5, 6]),
        make.case("beyond-the-reach" if spec.reach else "long", [long]),
        make.newborn(),
        make.case("age-124", [9], AT.date() - timedelta(days=45_300)),
    ]
    return [*cases, *(make.bags(size) for size in _BAGS if size == 1 or spec.hierarchical)]


def make_request(vocabulary: Vocabulary, spec: EhrSpec, events: int) -> dict[str, Any]:
    """A request of one patient with so many known events: the artifact's example."""
    request = _Maker(vocabulary, spec).case("example", [events]).request
    assert request is not None
    return request


class _Maker:
    def __init__(self, vocabulary: Vocabulary, spec: EhrSpec) -> None:
        self._vocabulary, self._spec = vocabulary, spec
        apart = {*spec.birth_codes, *spec.death_codes}
        self._codes = sorted(code for code in vocabulary.codes if code not in apart)
        self._random = np.random.default_rng(SEED)

    def case(self, name: str, lengths: list[int], birth: date = BIRTH) -> EhrCase:
        """One patient for every length; the birth event, known or not, comes on top."""
        days = (AT.date() - birth).days - 2
        patients = [{"id": str(i), "events": self._events(length, birth, days)} for i, length in enumerate(lengths)]
        return EhrCase(name=name, request={"prediction_time": AT.isoformat(), "patients": patients})

    def newborn(self) -> EhrCase:
        events = [{"time": AT.isoformat(), "code": code} for code in (self._spec.birth_codes[0], *self._codes[:2])]
        return EhrCase(
            name="newborn", request={"prediction_time": AT.isoformat(), "patients": [{"id": "0", "events": events}]}
        )

    def bags(self, size: int) -> EhrCase:
        """Positions whose bags hold so many tokens."""
        found = []
        for i in range(12):
            tokens = self._random.choice(self._vocabulary.size, min(size, self._vocabulary.size), replace=False)
            weights = self._random.uniform(0.1, 1, len(tokens)).astype(np.float16)
            found.append(Position(i, AT, tuple(tokens.tolist()), tuple(weights.tolist()), 9000.0 + 30 * i, i / 20))
        return EhrCase(name=f"bag-{size}", positions=[found])

    def _events(self, length: int, birth: date, days: int) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = [{"time": birth.isoformat(), "code": self._spec.birth_codes[0]}]
        hours = np.sort(self._random.choice(np.arange(24, 24 * days), length, replace=False))
        for hour in hours.tolist():
            time = datetime.combine(birth, datetime.min.time()) + timedelta(hours=int(hour), minutes=7)
            events.append(self._event(time))
        return events

    def _event(self, time: datetime) -> dict[str, Any]:
        """A known code; every fourth with a value, where the dictionary knows what to make of it."""
        code = self._codes[int(self._random.integers(len(self._codes)))]
        event = {"time": time.isoformat(), "code": code}
        if self._random.random() < 0.25:
            value = float(np.float32(self._random.normal(60, 40)))
            if self._vocabulary.bag(Event(time, code, value))[0]:
                return {**event, "numeric_value": value}
        return event
