"""Counting for every message of a segment: 2^20 int32 counts, never a row a position.

Work goes in blocks of messages that stay in the processor's cache; blocks can be shared among threads (NumPy lets go of
the interpreter while it computes), and the counts do not depend on how many there are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from models.balance_marking.hashing import Int64
from models.balance_marking.votes import Counts, Votes

BLOCK = 1 << 14  # messages counted at once


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message and the tokens that were available to it."""

    message: int
    count: int


def count_all(votes: Votes, messages: int, *, threads: int = 1) -> Counts:
    """int32 [messages]: for each message below `messages`, the positions whose token was available to it."""
    counts = np.zeros(messages, np.int32)

    def count(start: int) -> None:
        end = min(start + BLOCK, messages)
        votes.add(np.arange(start, end, dtype=np.int64), counts[start:end])

    starts = range(0, messages, BLOCK)
    if threads <= 1 or len(starts) == 1:
        for start in starts:
            count(start)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(count, starts))
    return counts


def count_these(votes: Votes, messages: Int64) -> Counts:
    """int64 [M] -> int32 [M]: the same for named messages."""
    counts = np.zeros(len(messages), np.int32)
    votes.add(np.asarray(messages, np.int64), counts)
    return counts


def leaders(counts: Counts, messages: Int64 | None, number: int) -> tuple[Candidate, ...]:
    """The `number` highest counts, the smaller index first among equals; messages None: the index is the message."""
    number = min(number, len(counts))
    least = np.partition(counts, len(counts) - number)[len(counts) - number]
    over = np.flatnonzero(counts > least)
    level = np.flatnonzero(counts == least)[: number - len(over)]
    chosen = np.concatenate([over, level])
    chosen = chosen[np.lexsort((chosen, -counts[chosen]))]
    return tuple(Candidate(int(i if messages is None else messages[i]), int(counts[i])) for i in chosen)
