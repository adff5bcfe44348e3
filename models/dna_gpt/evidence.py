"""What a black-box score rests on: runs of words that stand in the text and in a regeneration, with their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.dna_gpt.words import Word, words

FEWEST_WORDS = 4  # shorter runs are shared by any two texts
MOST_RUNS = 20


@dataclass(frozen=True, slots=True)
class Run:
    """Words that both have, by their stems: text[start:end] and regenerations[regeneration][other_start:other_end]."""

    words: int
    start: int
    end: int
    regeneration: int
    other_start: int
    other_end: int


def find_runs(
    text: str,
    regenerations: Sequence[str],
    *,
    position: int = 0,
    fewest: int = FEWEST_WORDS,
    most: int = MOST_RUNS,
) -> tuple[Run, ...]:
    """The longest runs of at least `fewest` words, no two of them overlapping in the text; in the text's order.

    position  where the judged part of the text begins; runs lie behind it, their places count from the text's start
    """
    judged = [word for word in words(text) if word.start >= position]
    found = [
        run
        for index, other in enumerate(regenerations)
        for run in _runs(judged, words(other), index)
        if run.words >= fewest
    ]
    chosen: list[Run] = []
    for run in sorted(found, key=lambda run: (-run.words, run.start, run.regeneration, run.other_start)):
        if len(chosen) == most:
            break
        if all(run.end <= other.start or run.start >= other.end for other in chosen):
            chosen.append(run)
    return tuple(sorted(chosen, key=lambda run: run.start))


def _runs(judged: list[Word], other: list[Word], regeneration: int) -> list[Run]:
    """All runs that cannot be made longer on either side."""
    if not judged or not other:
        return []
    known: dict[str, int] = {}
    ours = np.array([known.setdefault(word.stem, len(known)) for word in judged])
    theirs = np.array([known.setdefault(word.stem, len(known)) for word in other])
    length = np.zeros(len(other) + 1, np.int64)  # of the run that ends at the previous word and each of theirs
    found = []
    for index, stem in enumerate(ours):
        grown = np.zeros_like(length)
        grown[1:] = np.where(theirs == stem, length[:-1] + 1, 0)
        follows = ours[index + 1] if index + 1 < len(ours) else -1
        for end in np.flatnonzero((grown[1:] > 0) & (_shifted(theirs) != follows)):
            size = int(grown[end + 1])
            mine, its = judged[index - size + 1 : index + 1], other[end - size + 1 : end + 1]
            found.append(Run(size, mine[0].start, mine[-1].end, regeneration, its[0].start, its[-1].end))
        length = grown
    return found


def _shifted(theirs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The stem after each; -2, which equals none, after the last."""
    return np.append(theirs[1:], -2)
