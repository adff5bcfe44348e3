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
from models.balance_marking.votes import Floats


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


def check(decoder: Decoder, ids: Sequence[int], segments: Sequence[int], *, among: int = 1) -> Check:
    """The text's tokens (prompt excluded) and a message's segments; `among`: how many messages are asked about."""
    config, ids = decoder.partition.config, [int(token) for token in ids]
    split = split_positions(len(ids), config, len(segments))
    count, unique = 0, 0
    terms: list[Floats] = []
    for segment, positions in zip(segments, split, strict=True):
        once = first_of_each_pair(ids, positions, config)
        votes = merged(decoder.partition.votes(ids, once))
        count += int(count_these(votes, np.array([segment], np.int64))[0])
        terms += votes.terms()
        unique += len(once)
    distribution = count_distribution(terms)
    share = even_share(ids, [position for positions in split for position in positions], config.key)
    smoothed = smoothed_p_value(distribution, count, among, share)
    seen = power(terms, config.delta, among, decoder.level)
    attainable = p_value(distribution, len(distribution) - 1, among)
    return Check(
        count=count,
        scored=sum(map(len, split)),
        unique=unique,
        p_value=smoothed,
        p_at_most=p_value(distribution, count, among),
        power=seen,
        verdict=verdict_of(smoothed, attainable, seen, decoder.level),
    )
