"""What MOTOR is compared with: Cox regression on counts of the same tokens, and age alone.

Both read exactly what the network reads: the dictionary tokens of the events up to the question. A count is
log (1 + occurrences); a token that less than one in twenty of the training questions has is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from models.motor.vocabulary import Vocabulary, position_before
from recipes.motor.labels import Labels, Question
from recipes.motor.probes import concordance
from recipes.motor.records import Record

Floats = npt.NDArray[np.float64]
PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01)  # lifelines' penalizer, all of it L2; strongest first
_LEAST_SHARE = 0.05
_ONE_BIN = np.zeros(1)  # a proportional hazard ranks alike at all times


@dataclass(frozen=True)
class Counts:
    """tokens float64 [N, vocabulary] log (1 + occurrences) before each question; age float64 [N] in years."""

    tokens: Floats
    age: Floats


def counts(vocabulary: Vocabulary, size: int, records: Sequence[Record], asked: Sequence[Question]) -> Counts:
    """Read every record once."""
    tokens, age = np.zeros((len(asked), size)), np.zeros(len(asked))
    rows: dict[int, list[int]] = {}
    for row, question in enumerate(asked):
        rows.setdefault(question.record, []).append(row)
    for place, own in rows.items():
        record = records[place]
        positions = vocabulary.positions(record.events, record.birth)
        for row in own:
            last = position_before(positions, asked[row].time)
            seen = [token for p in positions[: 0 if last is None else last + 1] for token in p.tokens]
            tokens[row] = np.log1p(np.bincount(seen, minlength=size))
            age[row] = (asked[row].time - record.birth).days / 365.25
    return Counts(tokens, age)


@dataclass(frozen=True)
class Columns:
    """Which columns Cox regression reads, and their mean and deviation over the training questions."""

    kept: npt.NDArray[np.int64]
    mean: Floats
    deviation: Floats

    def of(self, known: Counts) -> Floats:
        """Standardised [N, columns], age last."""
        wide = np.column_stack([known.tokens[:, self.kept], known.age])
        return np.asarray((wide - self.mean) / self.deviation)


def columns(train: Counts) -> Columns:
    """Chosen without looking at any outcome."""
    share = (train.tokens > 0).mean(axis=0)
    kept = np.flatnonzero((share >= _LEAST_SHARE) & (train.tokens.std(axis=0) > 1e-3))
    wide = np.column_stack([train.tokens[:, kept], train.age])
    return Columns(kept, wide.mean(axis=0), wide.std(axis=0))


@dataclass(frozen=True)
class Cox:
    """Log relative hazard = columns . vector."""

    vector: Floats
    penalty: float
    tuning_c: float

    def log2_hazard(self, x: Floats) -> Floats:
        """[N, columns] -> [N, 1]."""
        return np.asarray((x @ self.vector)[:, None] / np.log(2))


def fit_cox(x: Floats, known: Labels, tuning_x: Floats, tuning: Labels) -> Cox:
    """The penalty with the best time-dependent C on the tuning split, as for the adapters."""
    found: list[Cox] = []
    start: Floats | None = None
    for penalty in PENALTIES:
        start = _lifelines(x[known.rows], known, penalty, start)
        fitted = Cox(start, penalty, 0.0)
        found.append(Cox(start, penalty, concordance(tuning, fitted.log2_hazard(tuning_x[tuning.rows]), _ONE_BIN)))
    return max(found, key=lambda cox: cox.tuning_c)


def _lifelines(x: Floats, known: Labels, penalty: float, start: Floats | None) -> Floats:
    """Coefficients of all columns; one that does not vary among these questions has none (lifelines divides by it)."""
    from lifelines import CoxPHFitter

    varying = np.flatnonzero(x.std(axis=0) > 1e-3)
    frame = pd.DataFrame(x[:, varying], columns=[f"x{i}" for i in varying])
    frame["days"], frame["event"] = known.seconds / 86400, known.event
    with warnings.catch_warnings():  # it speaks of pandas 4, and of columns that hardly vary
        warnings.simplefilter("ignore")
        first = None if start is None else start[varying]
        fitter = CoxPHFitter(penalizer=penalty).fit(frame, "days", "event", initial_point=first)
    found = np.zeros(x.shape[1])
    found[varying] = fitter.params_
    return found
