"""How good survival predictions are: concordance, Kaplan-Meier, Brier, calibration.

Letters: N labels, b bins, T horizons. Times are of one unit throughout; event is True where it happened, False where
the label was censored. log2_hazard float64 [N, b], bins begin at `starts` [b], the last one is unbounded.
`time_dependent_c`, `breslow` and `calibration_histogram` follow the paper's evaluation (appendix); the weighted ones
(IPCW: inverse probability of censoring) follow Uno et al. 2011, Graf et al. 1999 and Hung & Chiang 2010, with the
censoring distribution of the training labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_TIE = 1e-8  # risks this close count as equal


@dataclass(frozen=True)
class Steps:
    """A right-continuous step function that is 1 before the first of `times`."""

    times: Array
    values: Array

    def at(self, when: npt.ArrayLike) -> Array:
        return np.append(1.0, self.values)[np.searchsorted(self.times, when, side="right")]


def kaplan_meier(time: Array, event: Flags) -> Steps:
    """Probability that nothing has happened."""
    times, happened, at_risk, _ = _counts(time, event)
    return Steps(times, np.asarray(np.cumprod(1 - happened / at_risk), dtype=np.float64))


def censoring(time: Array, event: Flags) -> Steps:
    """Probability of not being censored; at tied times, events leave before censoring is judged."""
    times, happened, at_risk, lost = _counts(time, event)
    left = at_risk - happened
    return Steps(times, np.cumprod(1 - np.divide(lost, left, out=np.zeros_like(left), where=left > 0)))


def median_survival(curve: Steps) -> float:
    """First time at which survival is one half or less; infinity if it never is."""
    below = curve.values <= 0.5
    return float(curve.times[below.argmax()]) if below.any() else float("inf")


def survival_at(log2_hazard: Array, starts: Array, horizons: Array) -> Array:
    """[N, T] in 0..1."""
    return np.exp(-np.exp2(log2_hazard) @ _time_in_bins(horizons, starts).T)


def time_dependent_c(time: Array, event: Flags, log2_hazard: Array, starts: Array) -> tuple[float, Array]:
    """Incident/dynamic concordance, and its terms [D, 3]: area under the curve, time, weight.

    At every event time, those who have the event are ranked against those still at risk afterwards by the hazard of
    that time's bin; terms are weighted by event density times survival.
    """
    terms, alive_share = [], 1.0
    for moment in np.unique(time[event]):
        hazard = log2_hazard[:, _bin_of(moment, starts)]
        dead, alive = (time == moment) & event, time > moment
        died, left = int(dead.sum()), int(alive.sum())
        share = died / (died + left)
        weight = alive_share * share * alive_share * (1 - share)
        if left:
            better = np.searchsorted(np.sort(hazard[alive]), hazard[dead], side="left")
            terms.append((better.sum() / (died * left), moment, weight))
        alive_share *= 1 - share
    found = np.array(terms).reshape(-1, 3)
    return float(np.average(found[:, 0], weights=found[:, 2])), found


def harrell_c(time: Array, event: Flags, risk: Array) -> float:
    """Share of comparable pairs in which the one with the higher risk has the event first; ties count one half."""
    return _concordance(time, event, risk, np.ones_like(time))


def uno_c(time: Array, event: Flags, risk: Array, train: Steps, tau: float) -> float:
    """The same up to `tau`, weighted so that censoring does not matter."""
    weights = np.where(event & (time < tau), 1 / np.square(train.at(time)), 0.0)
    return _concordance(time, event, risk, weights)


def brier(time: Array, event: Flags, survival: Array, horizons: Array, train: Steps) -> Array:
    """Mean squared error of survival [N, T] at each horizon [T]."""
    own, common = train.at(time), train.at(horizons)
    case = (time[:, None] <= horizons) & event[:, None]
    control = time[:, None] > horizons
    own = np.where(own > 0, own, np.inf)
    error = np.square(survival) * case / own[:, None] + np.square(1 - survival) * control / common
    return np.asarray(error.mean(axis=0))


def integrated(values: Array, grid: Array) -> float:
    """Mean over a span of time, by trapezoids."""
    return float(np.trapezoid(values, grid) / (grid[-1] - grid[0]))


def dynamic_auc(time: Array, event: Flags, risk: Array, horizons: Array, train: Steps) -> tuple[Array, float]:
    """Area under the curve of risk [N, T] at each horizon: had the event by then, against has not; and their mean."""
    weights = np.where(event, 1 / train.at(time), 0.0)
    areas = np.array([_weighted_auc(risk[:, i], time, event, t, weights) for i, t in enumerate(horizons)])
    left = kaplan_meier(time, event).at(horizons)
    return areas, float((areas * -np.diff(left, prepend=1.0)).sum() / (1 - left[-1]))


def nam_dagostino(time: Array, event: Flags, risk: Array, when: float, groups: int = 10) -> tuple[Array, float]:
    """Groups of rising risk [groups, 3]: mean predicted, Kaplan-Meier observed, number; the unweighted statistic."""
    rows = []
    for chunk in np.array_split(np.argsort(risk), groups):
        observed = 1 - float(kaplan_meier(time[chunk], event[chunk]).at(when))
        rows.append((risk[chunk].mean(), observed, len(chunk)))
    found = np.array(rows)
    predicted, observed_all = found[:, 0], found[:, 1]
    return found, float((np.square(observed_all - predicted) / (predicted * (1 - predicted))).sum())


def breslow(time: Array, event: Flags, hazard: Array, starts: Array) -> Array:
    """Baseline cumulative hazard [D + 1, 2] (value, time) under relative hazards [N, b]; begins with zeros."""
    rows, total = [(0.0, 0.0)], 0.0
    for moment in np.unique(time[event]):
        dead = (time == moment) & event
        at_risk = hazard[dead | (time > moment), _bin_of(moment, starts)].sum()  # tied censored labels have left
        total += dead.sum() / at_risk
        rows.append((total, moment))
    return np.array(rows)


def breslow_cdf(when: Array, hazard: Array, starts: Array, curve: Array) -> Array:
    """Probability of the event by each label's own time [N], at most 0.999; between steps the baseline is linear."""
    edges = np.append(starts, np.inf)
    total = np.zeros(len(when))
    for i in range(len(starts)):
        until = np.clip(when, edges[i], edges[i + 1])
        last = when <= edges[i + 1]
        end = np.where(last, _baseline(until, curve), _baseline_step(np.full_like(when, edges[i + 1]), curve))
        begun = when > edges[i] if i else np.ones_like(when, dtype=bool)
        total += np.where(begun, (end - _baseline_step(np.full_like(when, starts[i]), curve)) * hazard[:, i], 0.0)
    return np.minimum(-np.expm1(-total), 0.999)


def calibration_histogram(probability: Array, event: Flags, bins: int = 10) -> Array:
    """Where predicted probabilities at the labels' own times lie [bins]; flat if calibrated. Censored labels are spread
    evenly over what remains above theirs."""
    edges = np.linspace(0, 1, bins + 1)
    low, high = edges[:-1], edges[1:]
    point = (probability[:, None] >= low) & (probability[:, None] < high)
    spread = np.clip(high - np.maximum(low, probability[:, None]), 0, None) / (1 - probability[:, None])
    return np.asarray(np.where(event[:, None], point, spread).mean(axis=0))


def _counts(time: Array, event: Flags) -> tuple[Array, Array, Array, Array]:
    """Distinct times, events at each, number at risk just before, censored at each."""
    times: Array
    times, place = np.unique(time, return_inverse=True)
    happened = np.bincount(place, weights=event, minlength=len(times))
    gone = np.bincount(place, minlength=len(times)).astype(np.float64)
    at_risk = len(time) - np.concatenate([[0.0], np.cumsum(gone)[:-1]])
    return times, np.asarray(happened, dtype=np.float64), at_risk, np.asarray(gone - happened, dtype=np.float64)


def _bin_of(moment: float, starts: Array) -> int:
    return int(np.searchsorted(starts, moment, side="right")) - 1


def _time_in_bins(horizons: Array, starts: Array) -> Array:
    ends = np.append(starts[1:], np.inf)
    return np.asarray(np.clip(np.minimum(horizons[:, None], ends) - starts, 0, None))


def _concordance(time: Array, event: Flags, risk: Array, weights: Array) -> float:
    agreed = total = 0.0
    for i in np.flatnonzero(event & (weights > 0)):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        gap = risk[i] - risk[later]
        tied = np.abs(gap) <= _TIE
        agreed += weights[i] * ((gap > 0) & ~tied).sum() + 0.5 * weights[i] * tied.sum()
        total += weights[i] * later.sum()
    return agreed / total


def _weighted_auc(risk: Array, time: Array, event: Flags, when: float, weights: Array) -> float:
    case, control = (time <= when) & event, time > when
    gap = risk[case][:, None] - risk[control]
    tied = np.abs(gap) <= _TIE
    share = ((gap > 0) & ~tied) + 0.5 * tied
    return float((weights[case] @ share).sum() / (weights[case].sum() * control.sum()))


def _baseline_step(when: Array, curve: Array) -> Array:
    """The baseline's last step not after a time."""
    place = np.searchsorted(curve[:, 1], when, side="right") - 1
    return np.asarray(curve[place, 0])


def _baseline(when: Array, curve: Array) -> Array:
    """The baseline, linear between its steps and beyond the last."""
    place = np.searchsorted(curve[:, 1], when, side="right") - 1
    low = np.minimum(place, len(curve) - 2)
    rate = (curve[low + 1, 0] - curve[low, 0]) / (curve[low + 1, 1] - curve[low, 1])
    return np.asarray(curve[place, 0] + rate * (when - curve[place, 1]))
