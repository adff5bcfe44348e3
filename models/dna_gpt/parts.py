"""A text as a detector reads it: how much of it, where it is cut, which tokens are given and which are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from models.dna_gpt.cut import WORD, cut

Span = tuple[int, int]


@dataclass(frozen=True)
class Parts:
    """One text in tokens.

    text      what is read: the sent text or its head, so that places in it are places in the sent text
    position  where the judged part begins, characters
    tokens    of the text; the first `given` of them are the given part
    starts    where each token starts, characters
    """

    text: str
    position: int
    tokens: tuple[int, ...]
    given: int
    starts: tuple[int, ...]

    @property
    def prefix(self) -> str:
        """The given part as text."""
        return self.text[: self.position]

    @property
    def remainder(self) -> str:
        """The judged part as text."""
        return self.text[self.position :]


def head(text: str, most_words: int) -> str:
    """The text up to the end of its last word that is read; white space between words stays as it is."""
    last = None
    for last in islice(WORD.finditer(text), most_words):  # noqa: B007
        pass
    return text[: last.end()] if last is not None else ""


def take_apart(text: str, tokens: Sequence[int], spans: Sequence[Span], ratio: float) -> Parts:
    """Cut before a word; tokens that end before it are given, those that hold a part of it are judged.

    text   what is read, with at least two words; tokens, spans: of it. Both sides get one token at least.
    The text is tokenised once, whole, so that the cut changes no token.
    """
    position = cut(text, ratio=ratio, unit="word").position
    given = sum(end <= position for _, end in spans)
    given = min(max(given, 1), len(tokens) - 1)
    return Parts(text, position, tuple(tokens), given, tuple(start for start, _ in spans))
