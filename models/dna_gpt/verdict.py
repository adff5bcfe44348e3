"""What may be said about a text: nothing where it is too short, in another script, or no threshold was calibrated."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Literal, Protocol, get_args

from models.dna_gpt.traits import traits

Verdict = Literal["machine", "human", "inconclusive", "too_short", "unsupported_script"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FEWEST_WORDS = 50  # of a text; half of them are judged
FEWEST_DISTINCT = 25  # different ones: a word said a hundred times is no text
LATIN_SHARE = 0.8  # of a text's letters, below which its words cannot be compared


class Thresholds(Protocol):
    """Two scores: above the one a text is a machine's, at or below the other a human's."""

    @property
    def threshold(self) -> float: ...

    @property
    def human_threshold(self) -> float: ...


def refusal(text: str, fewest: int = FEWEST_WORDS, distinct: int = FEWEST_DISTINCT) -> Verdict | None:
    """Why nothing can be said about a text, None where something can. A text without any letter is too short.

    fewest, distinct  words, and different words, that something can be said about
    """
    latin, others = letters(text)
    if others and latin < LATIN_SHARE * (latin + others):
        return "unsupported_script"
    found = traits(text)
    return "too_short" if found.words < fewest or found.distinct < distinct else None


def decide(score: float | None, thresholds: Thresholds | None) -> Verdict:
    """The verdict on a text that can be judged; a score both thresholds claim is nobody's."""
    if score is None or thresholds is None:
        return "inconclusive"
    is_machine, is_human = score > thresholds.threshold, score <= thresholds.human_threshold
    if is_machine == is_human:
        return "inconclusive"
    return "machine" if is_machine else "human"


def letters(text: str) -> tuple[int, int]:
    """(Latin letters, letters of other scripts)."""
    latin = others = 0
    for character, times in Counter(text).items():
        if character.isalpha():
            if unicodedata.name(character, "").startswith(("LATIN", "FULLWIDTH LATIN")):
                latin += times
            else:
                others += times
    return latin, others
