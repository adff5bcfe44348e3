"""The self-test against leakage: appended future, cut off again, must change nothing.

Twice over: a request with future events, duplicates and another order must become the same positions; and the graph,
given later positions behind the answering one, must not look at them. Part of the certificate and of every load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from models.motor.inputs import Tensors, to_tensors
from models.motor.vocabulary import Position

Json = dict[str, Any]
Run = Callable[[Tensors], Mapping[str, npt.NDArray[Any]]]
TOLERANCE = 2e-5  # of representation and features, float32 sums of another length
APPENDED = 5
_FUTURE = ("2999-12-31T23:59:59", "9999-12-31")


def with_future(document: Json) -> Json:
    """The request with every event twice, in reverse, and each code again in the far future."""
    patients = []
    for patient in document["patients"]:
        events: list[Json] = patient["events"]
        later = [{**event, "time": _FUTURE[i % 2]} for i, event in enumerate(events)]
        patients.append({**patient, "events": [*later, *events[::-1], *events]})
    return {**document, "patients": patients}


def with_future_positions(positions: Sequence[Position]) -> list[Position]:
    """The positions with copies of earlier ones behind them, a day apart."""
    last = positions[-1]
    later = [
        positions[(3 * i) % len(positions)]._replace(
            event=last.event + i,
            time=last.time + timedelta(days=i),
            age_days=last.age_days + i,
            standardised_age=last.standardised_age + i / 10,
        )
        for i in range(1, APPENDED + 1)
    ]
    return [*positions, *later]


def graph_difference(positions: Sequence[Position], run: Run, *, aged: bool) -> float:
    """Largest absolute difference that positions behind the answering one make."""
    alone = to_tensors(positions, aged=aged)
    followed = to_tensors(with_future_positions(positions), aged=aged) | {"last": alone["last"]}
    before, after = run(alone), run(followed)
    return max(float(np.abs(after[name] - before[name]).max()) for name in before)
