"""A new task from frozen features: one vector of rank + 1 numbers, shared by all time bins (Steinberg et al., 3.4).

    log2 hazard of a bin = its features and a one, times the vector
    loss = mean over labels and bins of hazard x time at risk - ln 2 x log2 hazard where the event falls
           + l2 / 2 x squared length of the vector without its last entry
The loss is convex; Newton's method with step halving finds its only minimum, in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
PATH = (*np.geomspace(10.0, 1e-5, 20).tolist(), 0.0)  # penalties tried, strongest first
_STEPS, _ENOUGH = 200, 1e-13
_LN2 = math.log(2)


@dataclass(frozen=True)
class Outcomes:
    """at_risk, happened float64 [N, b]: time of each label in each bin; 1 where its event falls, else 0."""

    at_risk: Array
    happened: Array


@dataclass(frozen=True)
class Fit:
    """The vector, the loss without its penalty, and the largest entry of the gradient."""

    vector: Array
    loss: float
    gradient: float


def outcomes(time: Array, event: npt.NDArray[np.bool_], starts: Array) -> Outcomes:
    """Times to event or censoring [N] -> time at risk in bins; the last bin is unbounded. One unit throughout."""
    ends = np.append(starts[1:], np.inf)
    at_risk = np.clip(np.minimum(time[:, None], ends) - starts, 0, None)
    inside = (time[:, None] >= starts) & (time[:, None] < ends)
    return Outcomes(at_risk, (inside & event[:, None]).astype(np.float64))


def with_one(features: Array) -> Array:
    """Binned features [N, b, r] -> [N, b, r + 1]."""
    return np.concatenate([features, np.ones((*features.shape[:2], 1))], axis=-1)


def fit(features: Array, known: Outcomes, l2: float, start: Array | None = None) -> Fit:
    """The minimum for one penalty; features [N, b, r + 1] end in a one. start: a vector to begin from."""
    rows = features.reshape(-1, features.shape[-1])
    at_risk, happened = known.at_risk.ravel(), known.happened.ravel()
    vector = marginal(rows.shape[1], known) if start is None else start
    penalty = np.full(rows.shape[1], l2)
    penalty[-1] = 0.0
    for _ in range(_STEPS):
        gradient, curvature = _derivatives(rows, at_risk, happened, vector, penalty)
        if np.abs(gradient).max() < _ENOUGH:
            break
        direction = np.asarray(np.linalg.lstsq(curvature, gradient, rcond=None)[0], dtype=np.float64)
        vector = _step(rows, at_risk, happened, vector, penalty, direction)
    gradient, _ = _derivatives(rows, at_risk, happened, vector, penalty)
    return Fit(vector, _loss(rows, at_risk, happened, vector, 0 * penalty), float(np.abs(gradient).max()))


def fit_path(features: Array, known: Outcomes) -> list[tuple[float, Fit]]:
    """One fit a penalty of PATH, each begun from the one before; choose by validation."""
    found: list[tuple[float, Fit]] = []
    for l2 in PATH:
        found.append((l2, fit(features, known, l2, found[-1][1].vector if found else None)))
    return found


def marginal(size: int, known: Outcomes) -> Array:
    """The vector that predicts the overall rate for everybody."""
    rate = max(known.happened.sum(), 0.5) / known.at_risk.sum()
    return np.append(np.zeros(size - 1), math.log2(rate))


def _loss(rows: Array, at_risk: Array, happened: Array, vector: Array, penalty: Array) -> float:
    logits = rows @ vector
    with np.errstate(over="ignore"):
        mean = (np.exp2(logits) * at_risk).mean() - _LN2 * (logits * happened).mean()
    return float(mean + 0.5 * (penalty * vector**2).sum())


def _derivatives(rows: Array, at_risk: Array, happened: Array, vector: Array, penalty: Array) -> tuple[Array, Array]:
    expected = np.exp2(rows @ vector) * at_risk
    gradient = _LN2 * rows.T @ (expected - happened) / len(rows) + penalty * vector
    curvature = _LN2**2 * (rows * expected[:, None]).T @ rows / len(rows) + np.diag(penalty)
    return gradient, curvature


def _step(rows: Array, at_risk: Array, happened: Array, vector: Array, penalty: Array, direction: Array) -> Array:
    """Newton's step, halved until the loss does not rise."""
    here, length = _loss(rows, at_risk, happened, vector, penalty), 1.0
    while length > 1e-10 and not _loss(rows, at_risk, happened, vector - length * direction, penalty) <= here:
        length /= 2
    return vector - length * direction
