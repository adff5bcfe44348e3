"""Does a text carry this very message? One candidate instead of all of them, so that much less text is needed.

The tokens of all segments vote together: the count of the expected message's available tokens against what it would be
by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.balance_marking.counting import count_these
from models.balance_marking.decoder import (
    Decoder,
    Verdict,
    even_share,
    first_of_each_pair,
    merged,
    split_positions,
    verdict_of,
)
from models.balance_marking.significance import count_distribution, p_value, power, smoothed_p_value
from models.balance_marking.votes import Votes


@dataclass(frozen=True, kw_only=True)
class Check:
    """What a text says about one message.

    count      tokens that were available to it, of `unique` that vote, of `scored` at marked positions
    p_value    of the best of `among` messages that were asked about: uniform on [0, 1] without a mark
    p_at_most  the same without smoothing between whole counts
    power      probability that an unedited mark would have been seen
    """

    count: int
    scored: int
    unique: int
    p_value: float
    p_at_most: float
    power: float
    verdict: Verdict


@dataclass(frozen=True)
class Evidence:
    """A text's votes, segment by segment, gathered once for any number of messages of `len(votes)` segments."""

    decoder: Decoder
    votes: tuple[Votes, ...]
    scored: int
    unique: int
    share: float  # see decoder.even_share

    @classmethod
    def of(cls, decoder: Decoder, ids: Sequence[int], segments: int) -> Evidence:
        """From the text's tokens, prompt excluded."""
        config, ids = decoder.partition.config, [int(token) for token in ids]
        split = split_positions(len(ids), config, segments)
        first = [first_of_each_pair(ids, positions, config) for positions in split]
        votes = tuple(merged(decoder.partition.votes(ids, positions)) for positions in first)
        scored = [position for positions in split for position in positions]
        return cls(decoder, votes, len(scored), sum(map(len, first)), even_share(ids, scored, config.key))

    def check(self, segments: Sequence[int], *, among: int = 1) -> Check:
        """For one message, given by its segments; `among`: how many messages are asked about."""
        pairs = zip(self.votes, segments, strict=True)
        count = sum(int(count_these(votes, np.array([segment], np.int64))[0]) for votes, segment in pairs)
        terms = [term for votes in self.votes for term in votes.terms()]
        distribution, level = count_distribution(terms), self.decoder.level
        smoothed = smoothed_p_value(distribution, count, among, self.share)
        seen = power(terms, self.decoder.partition.config.lean, among, level)
        attainable = p_value(distribution, len(distribution) - 1, among)
        return Check(
            count=count,
            scored=self.scored,
            unique=self.unique,
            p_value=smoothed,
            p_at_most=p_value(distribution, count, among),
            power=seen,
            verdict=verdict_of(smoothed, attainable, seen, level),
        )
