"""Where a text is cut into the part that is continued and the part that is judged.

The paper's program cuts at a character, in the middle of a word if need be, which changes the tokens around the cut;
that variant stays for comparison with its numbers. Cutting before a word or a token keeps both sides whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["character", "word", "token"]

RATIO = 0.5
TEXT_WORDS, REGENERATION_WORDS = 350, 200  # the official demo's limits
WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Cut:
    """prefix + remainder is the text; position is the remainder's first character."""

    prefix: str
    remainder: str

    @property
    def position(self) -> int:
        """Index in the text of the remainder's first character."""
        return len(self.prefix)


def cut(text: str, *, ratio: float = RATIO, unit: Unit = "word", tokens: Sequence[int] = ()) -> Cut:
    """Cut after `ratio` of the text's characters, words (runs without white space) or tokens, rounded down.

    ratio   in [0, 1]
    tokens  for unit "token": the index of every token's first character, ascending

    White space belongs to the prefix where words are counted; where a tokenizer does, it may open the remainder.
    """
    if unit == "character":
        return _at(text, int(ratio * len(text)))
    starts = [match.start() for match in WORD.finditer(text)] if unit == "word" else list(tokens)
    kept = int(ratio * len(starts))
    return _at(text, starts[kept] if kept < len(starts) else len(text))


def limit_words(text: str, most: int) -> str:
    """The text itself up to `most` words; above, its first words joined by single spaces."""
    found = text.split()
    return text if len(found) <= most else " ".join(found[:most])


def _at(text: str, position: int) -> Cut:
    return Cut(text[:position], text[position:])
