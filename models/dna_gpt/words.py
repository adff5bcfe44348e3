"""Words as the n-grams see them: lower case, runs of a-z and 0-9, Porter stems of words longer than 3 letters.

Everything else separates words, so that text in other scripts has none: `scripts` tells such text from an empty one.
The stems are NLTK's (Porter with NLTK's extensions), which the paper's own program uses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

WORD = re.compile(r"[a-z0-9]+")
STEMMED_FROM = 4  # letters


@dataclass(frozen=True, slots=True)
class Word:
    """A stem and the characters of the text it stands for: text[start:end]."""

    stem: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """The words of a text in order."""
    lowered, origin = lower(text)
    return [
        Word(stem(match[0]), origin[match.start()], origin[match.end() - 1] + 1) for match in WORD.finditer(lowered)
    ]


def stems(text: str) -> list[str]:
    """The words' stems alone."""
    return [stem(word) for word in WORD.findall(text.lower())]


def lower(text: str) -> tuple[str, list[int]]:
    """Lower case, and for each of its characters the index of the character it came from: some become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered, list(range(len(text)))
    pieces = [character.lower() for character in text]
    return "".join(pieces), [index for index, piece in enumerate(pieces) for _ in piece]


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Stem of a lower-case word."""
    return str(_stemmer().stem(word)) if len(word) >= STEMMED_FROM else word


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    """Imported late: the library brings half a second of its own."""
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
