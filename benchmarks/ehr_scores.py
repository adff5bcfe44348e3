"""Held-out scores of time-to-event predictors, all on the same questions, features and censoring.

Times beyond the 0.9 quantile of the training events' times are censored there, as in the paper's evaluation. Intervals
are percentiles over resampled subjects (a subject's questions stay together), the same resamples for every predictor.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    draws: list[npt.NDArray[np.int64]],
) -> TaskScores:
    """subjects [N]: whose question each is; draws: subjects of each resample, with repetition."""
    own = subjects[known.rows]
    order = np.argsort(own, kind="stable")
    begins = np.searchsorted(own[order], np.arange(subjects.max() + 2))
    resampled: dict[str, list[float]] = {name: [] for name in predictors}
    for draw in draws:
        chosen = np.concatenate([order[begins[subject] : begins[subject + 1]] for subject in draw])
        for name, predictor in predictors.items():
            resampled[name].append(_concordance(known, predictor, chosen))
    everybody = np.arange(len(known.rows))
    found = {name: np.array(values) for name, values in resampled.items()}
    scores = {
        name: interval(_concordance(known, predictor, everybody), found[name]) for name, predictor in predictors.items()
    }
    return TaskScores(len(known.rows), int(known.event.sum()), scores, found)


def _concordance(known: Labels, predictor: Predictor, chosen: npt.NDArray[np.int64]) -> float:
    picked = Labels(known.rows[chosen], known.seconds[chosen], known.event[chosen])
    return concordance(picked, predictor.log2_hazard[picked.rows], predictor.starts)


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
