"""What a text is like, as far as a threshold depends on it: how long, how varied, whether it is English prose.

A threshold holds for texts like those it was calibrated on. Words of other Latin-script languages, lists, code and
endless repetition look like words to every score; these numbers tell them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from models.dna_gpt.words import WORD

_COMMON = """
the of and to in a is was for that on as with by it at from his be are an this which or were had not he have has but
also been its their one they who i you we can more all would about when there her she him if so what these may than
into our will other such do no some between
"""
COMMON = frozenset(_COMMON.split())  # English; of a hundred words of prose about forty
MARGIN = 0.05  # of the lengths of calibrated texts


@dataclass(frozen=True, slots=True)
class Traits:
    """Of one text.

    words     runs of a-z and 0-9
    distinct  different ones among them
    common    share of words that are common in English, 0 to 1
    """

    words: int
    distinct: int
    common: float


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The range of traits of the human texts a threshold was calibrated on; all bounds belong to it."""

    fewest_words: int
    most_words: int
    least_common: float

    @classmethod
    def of(cls, texts: Iterable[Traits]) -> Coverage:
        """The range of these texts, at least one; lengths with a margin, as the next text of a kind may be longer."""
        every = list(texts)
        return cls(
            fewest_words=math.floor((1 - MARGIN) * min(one.words for one in every)),
            most_words=math.ceil((1 + MARGIN) * max(one.words for one in every)),
            least_common=min(one.common for one in every),
        )

    def excludes(self, traits: Traits) -> str | None:
        """Why a text lies outside, in words; None where it lies inside."""
        if not self.fewest_words <= traits.words <= self.most_words:
            return f"{traits.words} words; calibrated on {self.fewest_words} to {self.most_words}"
        if traits.common < self.least_common:
            share, least = (f"{value:.0%}" for value in (traits.common, self.least_common))
            return f"{share} of the words are common English ones; calibrated on texts with {least} and more"
        return None


def traits(text: str) -> Traits:
    """Count a text's words."""
    found = WORD.findall(text.lower())
    common = sum(word in COMMON for word in found)
    return Traits(len(found), len(set(found)), common / len(found) if found else 0.0)
