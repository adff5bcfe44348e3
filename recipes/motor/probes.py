"""Task adapters: a convex fit on frozen features for every penalty of a path, the best on the tuning split kept.

Best is the highest time-dependent C, as published. The fit has one optimum and no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.motor import adapter, metrics
from recipes.motor.features import Floats
from recipes.motor.labels import Labels


@dataclass(frozen=True)
class Probe:
    """vector float64 [r + 1]; what it was fitted on and how it did on the tuning split."""

    vector: Floats
    l2: float
    labels: int
    events: int
    tuning_c: float


@dataclass(frozen=True)
class Split:
    """Features [N, b, r] of all questions of a split, and one task's labels among them."""

    features: Floats
    labels: Labels

    @property
    def rows(self) -> Floats:
        """Features of the questions that count, with a one behind: [n, b, r + 1]."""
        return adapter.with_one(self.features[self.labels.rows])


def fit_probe(train: Split, tuning: Split, starts: Floats) -> Probe:
    """Deterministic. starts: the time bins in seconds."""
    known = adapter.outcomes(train.labels.seconds, train.labels.event, starts)
    path = adapter.fit_path(train.rows, known)
    scores = [concordance(tuning.labels, tuning.rows @ fit.vector, starts) for _, fit in path]
    l2, best = path[int(np.argmax(scores))]
    return Probe(best.vector, l2, len(train.labels.rows), int(train.labels.event.sum()), float(max(scores)))


def concordance(known: Labels, log2_hazard: Floats, starts: Floats) -> float:
    """Time-dependent C; one half where no event can be ranked."""
    if not known.event.any():
        return 0.5
    value, terms = metrics.time_dependent_c(known.seconds, known.event, log2_hazard, starts)
    return value if len(terms) else 0.5
