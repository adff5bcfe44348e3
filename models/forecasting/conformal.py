"""Split-conformal intervals around a point forecast, for every horizon step and column.

    score    s = |y - forecast| / difficulty(history)                     Lei et al. 2018, "Distribution-Free ..."
    radius   r = quantile of the calibration scores * difficulty(history)
    interval forecast - r ... forecast + r

The quantile of level p is the ceil((n + 1) p)-th smallest of n scores, so that among exchangeable windows an interval
holds the truth with probability of at least p. Time series are not exchangeable; `difficulty`, which follows the level
of each window's own movement, makes scores of calm and restless seasons comparable, and the rest is measured
(docs/forecasting.md).

Letters: B windows, L look-back, H horizon, C columns, K stored levels.
"""

from __future__ import annotations

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
_SEASON = {"s": 60, "min": 60, "h": 24, "d": 7, "w": 52, "MS": 12, "QS": 4, "YS": 1}


def season_of(frequency: Frequency) -> int:
    """Steps of the usual season: a minute of seconds, an hour or day of minutes, a day of hours, a week of days, ..."""
    if frequency.unit == "min" and frequency.count > 1:
        return max(1440 // frequency.count, 1)
    return max(_SEASON[frequency.unit] // frequency.count, 1)


def difficulty(history: Floats, unit: Floats, season: int) -> npt.NDArray[np.float64]:
    """How restless each window is: [B, L, C] raw -> float64 [B, C] in units of `unit` [C], at least FLOOR.

    The standard deviation around the window's own seasonal profile: its last whole seasons, averaged step by step,
    are what repeats; the rest is not. A season that does not fit twice counts as 1, which leaves the plain deviation.
    """
    scaled = np.asarray(history, dtype=np.float64) / unit
    windows, length, columns = scaled.shape
    step = season if 2 * season <= length else 1
    seasons = scaled[:, length % step :].reshape(windows, -1, step, columns)
    rest = seasons - seasons.mean(axis=1, keepdims=True)
    return np.asarray(rest.std(axis=(1, 2)) + FLOOR)


@dataclass(frozen=True)
class Conformal:
    """Quantiles of calibration scores.

    levels     percent, ascending, the last one 100, [K]
    quantiles  float32 [K, H, C]
    unit       float64 [C], raw units that scores and difficulties are counted in; > 0
    season     steps, see `difficulty`
    windows    calibration windows, n
    """

    levels: tuple[int, ...]
    quantiles: npt.NDArray[np.float32]
    unit: npt.NDArray[np.float64]
    season: int
    windows: int

    def __post_init__(self) -> None:
        if self.quantiles.shape[:1] != (len(self.levels),) or self.quantiles.shape[2:] != self.unit.shape:
            raise ValueError(f"quantiles have shape {self.quantiles.shape} for {len(self.levels)} levels")
        if list(self.levels) != sorted(set(self.levels)) or self.levels[-1] != 100:
            raise ValueError("levels must ascend to 100")

    def difficulty(self, history: Floats) -> npt.NDArray[np.float64]:
        """Of windows [B, L, C] in raw units: [B, C] in raw units."""
        return difficulty(history, self.unit, self.season) * self.unit

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


def calibrate(scores: Floats, unit: npt.NDArray[np.float64], season: int) -> Conformal:
    """Quantiles of scores [n, H, C]. Raises ValueError if there are fewer than LEAST_SCORES windows."""
    count, *cells = scores.shape
    if count < LEAST_SCORES:
        raise ValueError(f"{count} calibration windows came, intervals need at least {LEAST_SCORES}")
    levels = FINE if int(np.prod(cells)) <= FINE_CELLS else COARSE
    ordered = np.sort(scores, axis=0)
    quantiles = np.stack([ordered[rank(level, count)] for level in levels]).astype(np.float32)
    return Conformal(levels, quantiles, unit, season, count)


def rank(level: float, count: int) -> int:
    """Index of the level's quantile among `count` ascending scores: ceil((n + 1) p) - 1, the largest at most."""
    return min(int(np.ceil((count + 1) * level / 100 - 1e-9)), count) - 1
