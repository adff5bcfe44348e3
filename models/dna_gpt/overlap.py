"""How many of a remainder's n-grams a regeneration has too, for every n: the numbers all weightings start from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LONGEST = 24  # the official program's n-grams


@dataclass(frozen=True)
class Overlap:
    """One regeneration against the remainder, n = 1 .. N along the arrays.

    shared  int64 [N]    n-grams of both, each as often as in the poorer of the two
    ratio   float64 [N]  shared / n-grams of the remainder / words of the regeneration; 0 where there are none
    words   of the regeneration
    """

    shared: npt.NDArray[np.int64]
    ratio: npt.NDArray[np.float64]
    words: int


def overlap(remainder: Sequence[str], regeneration: Sequence[str], longest: int = LONGEST) -> Overlap:
    """Stems of both sides; the regeneration has one at least."""
    sizes = range(1, longest + 1)
    shared = np.array([_shared(remainder, regeneration, size) for size in sizes], np.int64)
    possible = np.array([max(len(remainder) - size + 1, 0) for size in sizes], np.int64)
    ratio = np.where(possible > 0, shared / np.maximum(possible, 1), 0.0) / len(regeneration)
    return Overlap(shared, ratio, len(regeneration))


def ngrams(stems: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """All runs of `size` stems, in order."""
    return list(zip(*(stems[offset:] for offset in range(size)), strict=False))


def _shared(one: Sequence[str], other: Sequence[str], size: int) -> int:
    if min(len(one), len(other)) < size:
        return 0
    return sum((Counter(ngrams(one, size)) & Counter(ngrams(other, size))).values())
