"""Adaptive conformal inference: levels that follow the truths (Gibbs & Candes 2021, eq. 2).

    alpha[t+1] = alpha[t] + gamma * (alpha - err[t])      err[t] = 1 where the interval at alpha[t] missed the truth

One alpha for every nominal level, horizon step and column. Whatever the data, after T truths the share of misses is
within (max(alpha, 1 - alpha) + gamma) / (gamma T) of alpha (their Proposition 4.1), provided an interval at
alpha <= 0 holds everything; here it reaches as far as the largest calibration score, so a shift beyond anything seen
in calibration can still miss.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from models.forecasting.conformal import Conformal

LEVELS = (50, 80, 90, 95, 99)  # nominal, percent: those whose coverage is watched
GAMMA = 0.005  # the paper's step


@dataclass
class Adaptive:
    """alpha float64 [len(LEVELS), H, C], in fractions; starts at the nominal 1 - level / 100."""

    conformal: Conformal
    alpha: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    gamma: float = GAMMA

    def __post_init__(self) -> None:
        if self.alpha.size == 0:
            self.alpha = self.nominal + np.zeros((len(LEVELS), *self.conformal.quantiles.shape[1:]))

    @property
    def nominal(self) -> npt.NDArray[np.float64]:
        """[len(LEVELS), 1, 1]."""
        return (1 - np.array(LEVELS) / 100)[:, None, None]

    def quantiles(self) -> npt.NDArray[np.float64]:
        """Score quantiles at the present alphas, [len(LEVELS), H, C]."""
        return self.conformal.at(100 * (1 - self.alpha))

    def update(self, scores: npt.NDArray[np.floating]) -> None:
        """Learn from the scores [H, C] of one window; NaN where the truth is not known."""
        known = np.isfinite(scores)
        missed = scores > self.quantiles()
        self.alpha += self.gamma * np.where(known, self.nominal - missed, 0.0)
