"""The black-box score of a text: its remainder against every regeneration, by any of the three weightings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.dna_gpt.overlap import Overlap, overlap
from models.dna_gpt.weighting import DEMO, FORMULA_LONGEST, Weighting
from models.dna_gpt.words import stems


@dataclass(frozen=True)
class BlackBoxReading:
    """A remainder against its regenerations.

    remainder_words  of the remainder
    usable           indices of the regenerations that have words, ascending; none where the remainder has no word
    overlaps         one a usable regeneration, n = 1 .. 25
    """

    remainder_words: int
    usable: tuple[int, ...]
    overlaps: tuple[Overlap, ...]

    def scores(self, weighting: Weighting = DEMO) -> tuple[float, ...]:
        """One a usable regeneration, higher = more machine-like."""
        return tuple(weighting.score(one) for one in self.overlaps)

    def score(self, weighting: Weighting = DEMO) -> float | None:
        """Mean over usable regenerations; None where there is none."""
        scores = self.scores(weighting)
        return float(np.mean(scores)) if scores else None

    def most_matched(self, longest_counted: int = FORMULA_LONGEST) -> int | None:
        """Index of the first regeneration with the longest shared run of words, None where none is usable.

        Runs of more than `longest_counted` words, at most 25, count as that many.
        """
        shared = [one.shared[:longest_counted] for one in self.overlaps]
        longest = [int(np.flatnonzero(one)[-1]) if one.any() else -1 for one in shared]
        return self.usable[int(np.argmax(longest))] if longest else None

    def mean_ratio(self) -> npt.NDArray[np.float64]:
        """float64 [25]: overlap by n, averaged over usable regenerations; zeros where there is none."""
        return np.mean([one.ratio for one in self.overlaps], axis=0) if self.overlaps else np.zeros(FORMULA_LONGEST)


def read_black_box(remainder: str, regenerations: Sequence[str]) -> BlackBoxReading:
    """Compare the judged part of a text with continuations of the part before it."""
    judged, others = stems(remainder), [stems(text) for text in regenerations]
    usable = tuple(index for index, other in enumerate(others) if judged and other)
    overlaps = tuple(overlap(judged, others[index], FORMULA_LONGEST) for index in usable)
    return BlackBoxReading(len(judged), usable, overlaps)
