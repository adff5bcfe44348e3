"""Reads a text: which message its tokens speak for, and how sure one may be that there is any.

A segment's message is the one most of whose tokens were available. Every (hashed tokens, token) pair counts once, for a
repeated pair repeats its vote; the p-value is that of the best of all candidate messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.balance_marking.config import MarkingConfig
from models.balance_marking.counting import Candidate, count_all, count_these, leaders
from models.balance_marking.hashing import MERSENNE, Int64, mix, tuple_hash
from models.balance_marking.partition import Partition
from models.balance_marking.significance import (
    best_of,
    count_distribution,
    p_value,
    power,
    smoothed_p_value,
)
from models.balance_marking.votes import TableVotes, Votes

Verdict = Literal["marked", "not_marked", "inconclusive", "too_short"]

NEAR_MISS = 10.0  # a p-value up to this multiple of the level is no ground for "not marked"
ENOUGH_POWER = 0.9  # with which an unedited mark must have been seen for "not marked"


@dataclass(frozen=True, kw_only=True)
class SegmentReading:
    """What one segment's tokens say.

    message     the likeliest candidate, None where no token votes
    candidates  the likeliest, best first
    margin      by how many tokens the first leads the second
    scored      tokens at the segment's positions; unique: different (hashed tokens, token) pairs, which vote
    p_value     of the best count: uniform on [0, 1] where nothing was embedded
    p_at_most   the same without smoothing between whole counts: never smaller
    power       probability that an unedited mark would have been seen
    """

    message: int | None
    candidates: tuple[Candidate, ...]
    margin: int
    scored: int
    unique: int
    p_value: float
    p_at_most: float
    power: float
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A whole text: its segments in order, and the verdict over the best of them."""

    segments: tuple[SegmentReading, ...]
    p_value: float
    verdict: Verdict

    @property
    def messages(self) -> tuple[int | None, ...]:
        """The likeliest message of every segment, whatever the verdict."""
        return tuple(segment.message for segment in self.segments)


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """Reads texts marked with one partition.

    level   declared rate at which unmarked texts are called marked, in (0, 1)
    top     candidates listed a segment, >= 1
    threads that share the counting, >= 1
    """

    partition: Partition
    level: float = 0.01
    top: int = 5
    threads: int = 1

    def read(self, ids: Sequence[int], *, segments: int = 1, among: Sequence[int] | None = None) -> Reading:
        """The text's tokens (prompt excluded) -> what they say.

        segments  of which the embedded message consists, >= 1
        among     only these messages are looked for, in every segment; None: all
        """
        ids = [int(token) for token in ids]
        config = self.partition.config
        read = [self._segment(ids, one, among) for one in split_positions(len(ids), config, segments)]
        share = best_of(min(one.p_value for one in read), len(read))
        return Reading(segments=tuple(read), p_value=share, verdict=_overall(read, share, self.level))

    def _segment(self, ids: Sequence[int], positions: Sequence[int], among: Sequence[int] | None) -> SegmentReading:
        config = self.partition.config
        unique = first_of_each_pair(ids, positions, config)
        votes = merged(self.partition.votes(ids, unique))
        chosen = None if among is None else np.array(sorted(set(among)), np.int64)
        looked_at = config.messages if chosen is None else len(chosen)
        best = self._best(votes, chosen) if unique and looked_at else ()
        terms = votes.terms()
        distribution, count = count_distribution(terms), best[0].count if best else 0
        at_most = p_value(distribution, count, looked_at)
        smoothed = smoothed_p_value(distribution, count, looked_at, even_share(ids, positions, config.key))
        seen = power(terms, config.lean, looked_at, self.level) if looked_at else 0.0
        attainable = p_value(distribution, len(distribution) - 1, looked_at)
        return SegmentReading(
            message=best[0].message if best else None,
            candidates=best[: self.top],
            margin=best[0].count - best[1].count if len(best) > 1 else count,
            scored=len(positions),
            unique=len(unique),
            p_value=smoothed if best else 1.0,
            p_at_most=at_most if best else 1.0,
            power=seen,
            verdict=verdict_of(smoothed if best else 1.0, attainable, seen, self.level),
        )

    def _best(self, votes: Votes, chosen: Int64 | None) -> tuple[Candidate, ...]:
        number = max(2, self.top)
        if chosen is not None:
            return leaders(count_these(votes, chosen), chosen, number)
        messages = self.partition.config.messages
        return leaders(count_all(votes, messages, threads=self.threads), None, number)


def split_positions(length: int, config: MarkingConfig, segments: int) -> list[list[int]]:
    """The marked positions of a text of `length` tokens by segment; every token from the `window`-th on is scored."""
    split: list[list[int]] = [[] for _ in range(segments)]
    for position in range(config.window, length):
        split[config.segment_of(position, segments)].append(position)
    return split


def first_of_each_pair(ids: Sequence[int], positions: Sequence[int], config: MarkingConfig) -> list[int]:
    """The positions at which a pair of hashed tokens and token stands for the first time."""
    first: dict[tuple[int, ...], int] = {}
    for position in positions:
        first.setdefault(tuple(ids[position - config.hash_window : position + 1]), position)
    return list(first.values())


def merged(votes: Votes) -> Votes:
    """Votes that depend on each other taken together, where there are such."""
    return votes.merged() if isinstance(votes, TableVotes) else votes


def even_share(ids: Sequence[int], positions: Sequence[int], key: int) -> float:
    """A number in (0, 1] that is even over texts, the same for the same text, and unknown without the key."""
    text = tuple_hash([ids[position] for position in positions])
    mixed = int(mix(np.array([tuple_hash((text, key % MERSENNE, 1))]))[0])
    return ((mixed % (1 << 53)) + 1) / (1 << 53)


def verdict_of(p: float, attainable: float, seen: float, level: float) -> Verdict:
    """Of a p-value, the smallest it could have been, the power to see a mark, and the declared level."""
    if attainable > level:
        return "too_short"  # not even all tokens available would have been a surprise
    if p <= level:
        return "marked"
    return "not_marked" if p > NEAR_MISS * level and seen >= ENOUGH_POWER else "inconclusive"


def _overall(read: Sequence[SegmentReading], p: float, level: float) -> Verdict:
    if all(one.verdict == "too_short" for one in read):
        return "too_short"
    if p <= level:
        return "marked"
    full = any(one.verdict == "not_marked" for one in read) and p > NEAR_MISS * level
    return "not_marked" if full else "inconclusive"
