"""What may be said about a text: nothing where it is too short, in another script, or no threshold was calibrated."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Literal

from models.dna_gpt.calibration import Calibration
from models.dna_gpt.words import WORD

Verdict = Literal["machine", "human", "inconclusive", "too_short", "unsupported_script"]

FEWEST_WORDS = 50  # of a text; half of them are judged
LATIN_SHARE = 0.8  # of a text's letters, below which its words cannot be compared


def refusal(text: str, fewest: int = FEWEST_WORDS) -> Verdict | None:
    """Why nothing can be said about a text, None where something can. A text without any letter is too short."""
    latin, others = letters(text)
    if others and latin < LATIN_SHARE * (latin + others):
        return "unsupported_script"
    return "too_short" if len(WORD.findall(text.lower())) < fewest else None


def decide(score: float | None, calibration: Calibration | None) -> Verdict:
    """The verdict on a text that can be judged."""
    if score is None or calibration is None:
        return "inconclusive"
    if score > calibration.threshold:
        return "machine"
    return "human" if score <= calibration.human_threshold else "inconclusive"


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
