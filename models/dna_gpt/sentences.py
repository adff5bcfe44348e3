"""Sentences and their scores: where in a text the suspicion lies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models.dna_gpt.evidence import Run
from models.dna_gpt.words import words

END = re.compile(r"""[.!?…]+["'”’)\]]*(?=\s)|[。！？]+|\n+""")


@dataclass(frozen=True, slots=True)
class Sentence:
    """text[start:end], without white space around it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """A sentence's score, None where it holds no token (white box) or word (black box)."""

    sentence: Sentence
    score: float | None


def split_sentences(text: str) -> list[Sentence]:
    """Sentences end at . ! ? … before white space, at the Chinese and Japanese stops, and at line breaks."""
    edges = [0, *(match.end() for match in END.finditer(text)), len(text)]
    pieces = []
    for start, end in pairwise(edges):
        piece = text[start:end]
        left = len(piece) - len(piece.lstrip())
        if kept := piece.strip():
            pieces.append(Sentence(start + left, start + left + len(kept)))
    return pieces


def white_box_scores(
    text: str, starts: Sequence[int], log_probs: Sequence[float], baseline: float
) -> list[SentenceScore]:
    """Mean log-probability of each sentence's tokens minus the baseline of the model's own text.

    starts  index in the text of each judged token's first character; a token belongs to the sentence it starts in, or
            to the next where it starts with the white space before it
    """
    scored = []
    for sentence, members in zip(split := split_sentences(text), _members(split, starts), strict=True):
        inside = [log_probs[index] for index in members]
        scored.append(SentenceScore(sentence, float(np.mean(inside)) - baseline if inside else None))
    return scored


def black_box_scores(text: str, runs: Sequence[Run], position: int = 0) -> list[SentenceScore]:
    """Share of each sentence's judged words that lie in a run shared with a regeneration, in [0, 1]."""
    judged = [word for word in words(text) if word.start >= position]
    split = split_sentences(text)
    scored = []
    for sentence, members in zip(split, _members(split, [word.start for word in judged]), strict=True):
        shared = [any(run.start <= judged[index].start < run.end for run in runs) for index in members]
        scored.append(SentenceScore(sentence, float(np.mean(shared)) if shared else None))
    return scored


def _members(sentences: Sequence[Sentence], starts: Sequence[int]) -> list[list[int]]:
    """For each sentence the indices of what starts before its end and not before the previous one's."""
    members: list[list[int]] = [[] for _ in sentences]
    ends = np.array([sentence.end for sentence in sentences])
    for index, start in enumerate(starts):
        place = int(np.searchsorted(ends, start, side="right"))
        if place < len(sentences):
            members[place].append(index)
    return members
