"""Split-conformal intervals around a point forecast, for every horizon step and column.

    score    s = |y - forecast| / difficulty(history)                     Lei et al. 2018, "Distribution-Free ..."
    radius   r = quantile of the calibration scores * difficulty(history)
    interval forecast - r ... forecast + r

Among n scores of weights w in (0, 1], the quantile of level p is the smallest score that, with all below it, weighs at
least p (sum w + 1): the 1 is the window to come (Barber et al. 2023, "Conformal Prediction Beyond Exchangeability").
With equal weights that is the ceil((n + 1) p)-th smallest, and among exchangeable windows an interval holds the truth
with probability of at least p. Time series are not exchangeable: `unrest` makes scores of calm and restless weeks
comparable, `year_weights` balances a file that holds one season more often than another, and the rest is measured
(docs/forecasting.md).

Letters: B windows, L look-back, H horizon, C columns, K stored levels, n calibration windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.forecasting.frequency import Frequency

Floats = npt.NDArray[np.floating]

FINE = tuple(range(1, 101))  # percent; 100 is the largest score there was
COARSE = (50, 80, 90, 95, 99, 100)
FINE_CELLS = 20_000  # steps x columns up to which the fine levels are stored: 8 MB
FLOOR = 0.05  # units: a flat history does not make the next hour certain
LEAST_SCORES = 100  # windows below which a level of 99 % has no quantile
SEASONS = 4  # that difficulty looks back on, at most, so that a longer look-back does not change what it means
YEAR_SECONDS = 31_556_952  # of the Gregorian calendar, on average
_SEASON = {"s": 60, "min": 60, "h": 24, "d": 7, "w": 52, "MS": 12, "QS": 4, "YS": 1}


def season_of(frequency: Frequency) -> int:
    """Steps of the usual season: a minute of seconds, an hour or day of minutes, a day of hours, a week of days, ..."""
    if frequency.unit == "min" and frequency.count > 1:
        return max(1440 // frequency.count, 1)
    return max(_SEASON[frequency.unit] // frequency.count, 1)


def year_of(frequency: Frequency) -> int:
    """Steps of a year, rounded, at least 1."""
    if (step := frequency.seconds) is not None:
        return max(round(YEAR_SECONDS / step), 1)
    return max(_SEASON[frequency.unit] // frequency.count, 1)


def year_weights(starts: npt.NDArray[np.integer], year: int) -> npt.NDArray[np.float64]:
    """Weights in (0, 1] that count every time of year alike, for windows that start at these rows: [n] -> [n].

    A window's weight is one over the number of years whose rows hold its time of year. With year=12 and starts 0 to
    15, the first four months occur twice: [.5, .5, .5, .5, 1, ..., 1, .5, .5, .5, .5].
    """
    passed = starts - starts[0]
    years = passed // year + 1 + (passed[-1] - passed) // year
    return np.asarray(years.min() / years)


def deviation(history: Floats, unit: Floats, season: int) -> npt.NDArray[np.float64]:
    """The difficulty of artifacts that name none: the standard deviation around the window's own seasonal profile.

    [B, L, C] raw -> float64 [B, C] in units of `unit` [C], at least FLOOR. A season that does not fit twice counts
    as 1.
    """
    scaled = np.asarray(history, dtype=np.float64) / unit
    windows, length, columns = scaled.shape
    step = season if 2 * season <= length else 1
    seasons = scaled[:, length % step :].reshape(windows, -1, step, columns)
    rest = seasons - seasons.mean(axis=1, keepdims=True)
    return np.asarray(rest.std(axis=(1, 2)) + FLOOR)


def unrest(history: Floats, unit: Floats, season: int) -> npt.NDArray[np.float64]:
    """How unlike itself each window has become: [B, L, C] raw -> float64 [B, C] in units of `unit` [C], at least FLOOR.

    A column's unrest is the mean distance of its last season from the mean of up to three before it, step by step; one
    season is a noisy witness, so what comes out is the geometric mean of the column's and of all columns' together.
    A season of 1, or one that does not fit twice, gives no profile: the mean distance of neighbouring steps counts.
    """
    scaled = np.asarray(history, dtype=np.float64) / unit
    windows, length, columns = scaled.shape
    if season > 1 and 2 * season <= length:
        used = season * min(length // season, SEASONS)
        seasons = scaled[:, length - used :].reshape(windows, -1, season, columns)
        moved = seasons[:, -1] - seasons[:, :-1].mean(axis=1)
    else:
        moved = np.diff(scaled, axis=1) if length > 1 else np.zeros_like(scaled)
    logs = np.log(np.abs(moved).mean(axis=1) + FLOOR)
    return np.asarray(np.exp((logs + logs.mean(axis=1, keepdims=True)) / 2))


DIFFICULTIES: tuple[Callable[[Floats, Floats, int], npt.NDArray[np.float64]], ...] = (deviation, unrest)
NEWEST = len(DIFFICULTIES) - 1  # what artifacts are calibrated with


@dataclass(frozen=True)
class Conformal:
    """Quantiles of calibration scores.

    levels      percent, ascending, the last one 100, [K]
    quantiles   float32 [K, H, C]
    unit        float64 [C], raw units that scores and difficulties are counted in; > 0
    season      steps, see `unrest`
    windows     calibration windows, n
    measure     place in DIFFICULTIES of the one the scores were divided by
    """

    levels: tuple[int, ...]
    quantiles: npt.NDArray[np.float32]
    unit: npt.NDArray[np.float64]
    season: int
    windows: int
    measure: int = NEWEST

    def __post_init__(self) -> None:
        if self.quantiles.shape[:1] != (len(self.levels),) or self.quantiles.shape[2:] != self.unit.shape:
            raise ValueError(f"quantiles have shape {self.quantiles.shape} for {len(self.levels)} levels")
        if list(self.levels) != sorted(set(self.levels)) or self.levels[-1] != 100:
            raise ValueError("levels must ascend to 100")
        if not 0 <= self.measure < len(DIFFICULTIES):
            raise ValueError(f"difficulty {self.measure} is not known to this version")

    def difficulty(self, history: Floats) -> npt.NDArray[np.float64]:
        """Of windows [B, L, C] in raw units: [B, C] in raw units."""
        return DIFFICULTIES[self.measure](history, self.unit, self.season) * self.unit

    def quantile(self, level: int) -> npt.NDArray[np.float32]:
        """Score quantiles [H, C] of a stored level. Raises LookupError for another."""
        if level not in self.levels:
            raise LookupError(level)
        found: npt.NDArray[np.float32] = self.quantiles[self.levels.index(level)]
        return found

    def at(self, levels: Floats) -> npt.NDArray[np.float64]:
        """Score quantiles [..., H, C] at any levels in percent, [..., H, C]: between stored ones on the line.

        Below the first stored level the line goes to 0; above 100 the largest score counts.
        """
        grid = np.array([0, *self.levels], dtype=np.float64)
        scores = np.concatenate([np.zeros_like(self.quantiles[:1]), self.quantiles]).astype(np.float64)
        wanted = np.clip(levels, 0, 100)
        upper = np.clip(np.searchsorted(grid, wanted), 1, len(grid) - 1)
        share = (wanted - grid[upper - 1]) / (grid[upper] - grid[upper - 1])
        rows, columns = np.indices(self.quantiles.shape[1:])
        low, high = scores[upper - 1, rows, columns], scores[upper, rows, columns]
        return np.asarray(low + share * (high - low))


def calibrate(
    scores: Floats, unit: npt.NDArray[np.float64], season: int, weights: npt.NDArray[np.float64] | None = None
) -> Conformal:
    """Quantiles of scores [n, H, C], of `unrest`. weights [n] in (0, 1], default: all 1.

    Raises ValueError if there are fewer than LEAST_SCORES windows.
    """
    count, horizon, columns = scores.shape
    if count < LEAST_SCORES:
        raise ValueError(f"{count} calibration windows came, intervals need at least {LEAST_SCORES}")
    levels = FINE if horizon * columns <= FINE_CELLS else COARSE
    given = np.ones(count) if weights is None else weights
    wanted = np.array(levels) / 100 * (given.sum() + 1) - 1e-9
    quantiles = np.empty((len(levels), horizon, columns), dtype=np.float32)
    for step in range(horizon):  # a step at a time: order and sums of all would be several times the scores
        order = np.argsort(scores[:, step], axis=0)
        for column in range(columns):
            places = order[:, column]
            reached = np.searchsorted(given[places].cumsum(), wanted)
            quantiles[:, step, column] = scores[places[np.minimum(reached, count - 1)], step, column]
    return Conformal(levels, quantiles, unit, season, count)
