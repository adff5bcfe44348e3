"""From hazards in time bins to what a caller asks for: survival, risk, median time; numpy, float64.

Letters: t tasks, b bins, T horizons. A hazard of 0 is legal: survival 1, no median.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def log2_hazards(features: npt.NDArray[np.floating], weight: Array, bias: Array) -> Array:
    """features [b, r], weight [t, r], bias [t] or [t, b] -> log2 of the hazard a time unit [t, b].

    A bias of -inf (a rate of 0) gives -inf whatever the features are.
    """
    made = weight @ features.astype(np.float64).T
    return np.asarray(made + (bias[:, None] if bias.ndim == 1 else bias))


def survival(hazard: Array, starts: Array, horizons: Array) -> Array:
    """Probability that nothing has happened by each horizon: [t, b] -> [t, T] in 0..1. One time unit throughout."""
    ends = np.append(starts[1:], np.inf)
    inside = np.clip(np.minimum(horizons[:, None], ends) - starts, 0, None)
    return np.asarray(np.exp(-(hazard @ inside.T)))


def median_time(hazard: Array, starts: Array) -> float | None:
    """First time at which survival is one half, for one task's hazard [b]; None: never."""
    gathered = 0.0
    ends = [*starts[1:].tolist(), math.inf]
    for rate, start, end in zip(hazard.tolist(), starts.tolist(), ends, strict=True):
        if rate > 0 and gathered + rate * (end - start) >= math.log(2):
            return float(start + (math.log(2) - gathered) / rate)
        gathered += rate * (end - start) if rate > 0 else 0.0
    return None
