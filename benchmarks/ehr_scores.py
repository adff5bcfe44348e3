"""Held-out scores of time-to-event predictors, all on the same questions, features and censoring.

Times beyond the 0.9 quantile of the training events' times are censored there, as in the paper's evaluation. Intervals
are percentiles over resampled subjects (a subject's questions stay together), the same resamples for every predictor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.motor import metrics
from recipes.motor.labels import Labels
from recipes.motor.probes import concordance

Floats = npt.NDArray[np.float64]
_LATEST = 0.9


@dataclass(frozen=True)
class Predictor:
    """log2 hazards [N, b] of every question in bins that begin at `starts` seconds."""

    log2_hazard: Floats
    starts: Floats


@dataclass(frozen=True)
class Score:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class TaskScores:
    """One task: questions and events that count, time-dependent C by predictor, and C of every resample [R]."""

    questions: int
    events: int
    scores: dict[str, Score]
    resampled: dict[str, Floats]


def capped(known: Labels, train: Labels) -> Labels:
    """Waits longer than nearly all training events took are cut off."""
    latest = float(np.quantile(train.seconds[train.event], _LATEST))
    return Labels(known.rows, np.minimum(known.seconds, latest), known.event & (known.seconds <= latest))


def task_scores(
    known: Labels,
    subjects: npt.NDArray[np.int64],
    predictors: Mapping[str, Predictor],
    draws: Sequence[npt.NDArray[np.int64]],
) -> TaskScores:
    """subjects [N]: whose question each is; draws: subjects of each resample, with repetition."""
    own, people = subjects[known.rows], int(subjects.max()) + 1
    weights = np.stack([np.bincount(draw, minlength=people)[own] for draw in draws]).astype(np.float64)
    resampled = {name: weighted_c(known, predictor, weights) for name, predictor in predictors.items()}
    scores = {
        name: interval(concordance(known, predictor.log2_hazard[known.rows], predictor.starts), resampled[name])
        for name, predictor in predictors.items()
    }
    return TaskScores(len(known.rows), int(known.event.sum()), scores, resampled)


def weighted_c(known: Labels, predictor: Predictor, weights: Floats) -> Floats:
    """Time-dependent C of every row of `weights` [R, N], in which a label counts as often as its weight says: [R].

    What `models.motor.metrics.time_dependent_c` makes of the labels repeated that often, for all rows at once.
    """
    time, hazard = known.seconds, predictor.log2_hazard[known.rows]
    total, terms, alive = np.zeros(len(weights)), np.zeros(len(weights)), np.ones(len(weights))
    for moment in np.unique(time[known.event]):
        risk = hazard[:, np.searchsorted(predictor.starts, moment, side="right") - 1]
        dead, left = (time == moment) & known.event, time > moment
        below = weights[:, left] @ (risk[left][:, None] < risk[dead])
        died, staying = weights[:, dead].sum(axis=1), weights[:, left].sum(axis=1)
        share = np.divide(died, died + staying, out=np.zeros_like(died), where=died > 0)
        pairs = died * staying
        area = np.divide((below * weights[:, dead]).sum(axis=1), pairs, out=np.zeros_like(pairs), where=pairs > 0)
        weight = np.where(pairs > 0, alive * share * alive * (1 - share), 0.0)
        terms, total = terms + weight * area, total + weight
        alive = alive * (1 - share)
    return np.divide(terms, total, out=np.full_like(terms, 0.5), where=total > 0)


def interval(value: float, resampled: Floats) -> Score:
    """The middle 95 % of the resamples."""
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Score(value, float(low), float(high))


@dataclass(frozen=True)
class Calibration:
    """Ten groups of rising risk by `days`: mean predicted and Kaplan-Meier observed [10], and the groups' sizes."""

    days: float
    predicted: Floats
    observed: Floats
    sizes: Floats

    @property
    def overall(self) -> tuple[float, float]:
        """Mean predicted and observed over all questions."""
        return float(np.average(self.predicted, weights=self.sizes)), float(
            np.average(self.observed, weights=self.sizes)
        )


def calibration(known: Labels, train: Labels, predictor: Predictor) -> Calibration:
    """At the median time of the training events."""
    when = float(np.median(train.seconds[train.event]))
    risk = 1 - metrics.survival_at(predictor.log2_hazard[known.rows], predictor.starts, np.array([when]))[:, 0]
    rows, _ = metrics.nam_dagostino(known.seconds, known.event, risk, when)
    return Calibration(when / 86400, rows[:, 0], rows[:, 1], rows[:, 2])
