"""From scores to decisions: thresholds for a declared false-positive rate, and how far they may be trusted.

A text counts as machine-written where its score lies above the threshold. The threshold is an order statistic of human
scores chosen so that a new human text of the same kind lies above it with at most the declared probability (split
conformal prediction); rates come with exact binomial (Clopper-Pearson) intervals, areas under the curve with DeLong's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, norm, rankdata

from models.dna_gpt.rate import Rate

Floats = npt.NDArray[np.float64]
Scores = Sequence[float] | Floats

MOST_POINTS = 200  # of a stored curve


class CalibrationError(ValueError):
    """Scores do not allow what was asked.

    field  which argument; message  what came and what is needed
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Rates of the decision `score > threshold`."""

    threshold: float
    false_positive_rate: float
    true_positive_rate: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A threshold and what it was measured on.

    threshold        above it: machine
    human_threshold  at or below it: human; at most the declared rate of machine texts lies there
    """

    threshold: float
    human_threshold: float
    declared_rate: float
    confidence: float
    humans: int
    machines: int
    false_positives: Rate
    true_positives: Rate
    area: Rate
    curve: tuple[CurvePoint, ...]


def calibrate(human: Scores, machine: Scores, rate: float, *, confidence: float = 0.95) -> Calibration:
    """Scores of human and of machine texts, all finite -> a threshold with at most `rate` false positives, in (0, 1).

    Raises CalibrationError where there are too few texts for that rate.
    """
    ours, theirs = _checked("human", human), _checked("machine", machine)
    threshold = conformal_threshold(ours, rate, "human")
    above = int((theirs > threshold).sum())
    return Calibration(
        threshold=threshold,
        human_threshold=-conformal_threshold(-theirs, rate, "machine"),
        declared_rate=rate,
        confidence=confidence,
        humans=len(ours),
        machines=len(theirs),
        false_positives=binomial_rate(int((ours > threshold).sum()), len(ours), confidence),
        true_positives=binomial_rate(above, len(theirs), confidence),
        area=area_under_curve(ours, theirs, confidence),
        curve=roc(ours, theirs),
    )


def conformal_threshold(scores: Floats, rate: float, field: str = "scores") -> float:
    """The score that a new one of the same kind exceeds with probability at most `rate`."""
    if not 0 < rate < 1:
        raise CalibrationError("rate", f"got {rate}, expected a number between 0 and 1")
    place = math.ceil((len(scores) + 1) * (1 - rate) - 1e-9)
    if place > len(scores):
        needed = math.ceil(1 / rate - 1 - 1e-9)
        raise CalibrationError(field, f"got {len(scores)} texts, a rate of {rate:g} needs {needed} at least")
    return float(np.sort(scores)[place - 1])


def binomial_rate(successes: int, trials: int, confidence: float = 0.95) -> Rate:
    """Clopper-Pearson: the interval holds the true rate with at least `confidence`, whatever it is. trials >= 1."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, successes, trials - successes + 1)) if successes else 0.0
    high = float(beta.ppf(1 - tail, successes + 1, trials - successes)) if successes < trials else 1.0
    return Rate(successes / trials, low, high)


def area_under_curve(human: Scores, machine: Scores, confidence: float = 0.95) -> Rate:
    """P(a machine text scores above a human one), ties half; interval after DeLong (1988), within [0, 1]."""
    ours, theirs = _checked("human", human), _checked("machine", machine)
    together = rankdata(np.concatenate([theirs, ours]))
    machine_place = (together[: len(theirs)] - rankdata(theirs)) / len(ours)
    human_place = 1 - (together[len(theirs) :] - rankdata(ours)) / len(theirs)
    area = float(machine_place.mean())
    variance = _mean_variance(machine_place) + _mean_variance(human_place)
    reach = float(norm.ppf(0.5 + confidence / 2)) * math.sqrt(variance)
    return Rate(area, max(0.0, area - reach), min(1.0, area + reach))


def roc(human: Floats, machine: Floats, most: int = MOST_POINTS) -> tuple[CurvePoint, ...]:
    """From everything called human to everything called machine; at most `most` points, both ends among them."""
    thresholds = np.unique(np.concatenate([human, machine]))[::-1]
    thresholds = np.append(thresholds, np.nextafter(thresholds[-1], -np.inf))
    if len(thresholds) > most:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, most).round().astype(int)]
    humans, machines = np.sort(human), np.sort(machine)
    false = 1 - np.searchsorted(humans, thresholds, side="right") / len(humans)
    true = 1 - np.searchsorted(machines, thresholds, side="right") / len(machines)
    return tuple(CurvePoint(*map(float, point)) for point in zip(thresholds, false, true, strict=True))


def _mean_variance(places: Floats) -> float:
    """Variance of the mean."""
    return float(places.var(ddof=1)) / len(places) if len(places) > 1 else 0.0


def _checked(field: str, scores: Scores) -> Floats:
    found = np.asarray(scores, np.float64)
    if not len(found):
        raise CalibrationError(field, "got no score")
    if not np.isfinite(found).all():
        raise CalibrationError(field, "every score must be a finite number")
    return found
