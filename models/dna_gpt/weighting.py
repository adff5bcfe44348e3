"""The three ways in which the paper's authors weigh n-gram overlaps, which give incomparable scores.

demo      the demo program: weight w ln w with w = 3n - 2, from n = 2, divided by the weights of n that overlap at all
notebook  the evaluation notebooks: w = 2n - 1, from n = 3, divided likewise; a text's score there is the sum
formula   the paper: w = n, n = 4 .. 25, not divided

The first two count position in a table where the formula counts n. A threshold belongs to one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from models.dna_gpt.overlap import LONGEST, Overlap

DEMO_THRESHOLD = 0.00025  # the demo's, for one commercial model; with others it accuses most human texts
FORMULA_LONGEST = 25
GUARD = 1e-8  # of the official programs, against no overlap at all


@dataclass(frozen=True)
class Weighting:
    """score = sum over n of w ln w * ratio[n], w = step * n - back; divided by the sum of w where `normalised`.

    shortest, longest  n of the first and the last n-gram that counts
    """

    name: str
    step: int
    back: int
    shortest: int
    longest: int
    normalised: bool

    def score(self, overlap: Overlap) -> float:
        """Of one regeneration, >= 0; 0 where nothing that counts overlaps."""
        sizes = np.arange(1, len(overlap.ratio) + 1)
        counted = (sizes >= self.shortest) & (sizes <= self.longest)
        weights = self._weights(sizes)
        total = float((weights * overlap.ratio)[counted].sum())
        if not self.normalised:
            return total
        present = float((self.step * sizes - self.back)[counted & (overlap.shared > 0)].sum())
        return total / (present + GUARD)

    def _weights(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.array([w * math.log(w) for w in (self.step * sizes - self.back).tolist()])


DEMO = Weighting("demo", 3, 2, 2, LONGEST, True)
NOTEBOOK = Weighting("notebook", 2, 1, 3, LONGEST, True)
FORMULA = Weighting("formula", 1, 0, 4, FORMULA_LONGEST, False)
WEIGHTINGS = MappingProxyType({one.name: one for one in (DEMO, NOTEBOOK, FORMULA)})
