"""How surprising a count is: exact probabilities under "nothing was embedded", and the power to have seen a mark.

Without a mark, a message's token is available at a position with the share of permutations under which it is; over
independent positions the count follows a Poisson-binomial distribution. A fair coin would be wrong: a token the proxy
expects is available to nearly every message. The best of M messages is judged as the best of M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from models.balance_marking.votes import Floats


def count_distribution(terms: Sequence[Floats]) -> Floats:
    """Of the sum of independent terms (probabilities of 0, 1, 2, ... each): float64 [largest sum + 1].

    Only non-negative products are added, so every tail is accurate relative to itself.
    """
    whole = np.ones(1)
    for term in terms:
        whole = np.convolve(whole, term)
    return whole


def poisson_binomial(rates: Floats) -> Floats:
    """Distribution of the number of successes of independent trials with these rates: float64 [n + 1]."""
    return count_distribution([np.array([1.0 - rate, rate]) for rate in rates])


def tails(distribution: Floats) -> Floats:
    """P(count >= c) for c = 0 .. n + 1: float64 [n + 2], the last 0."""
    reversed_sums = np.cumsum(distribution[::-1])[::-1]
    return np.append(np.minimum(reversed_sums, 1.0), 0.0)


def best_of(tail: float, candidates: int) -> float:
    """P(the best of `candidates` independent messages reaches what one reaches with probability `tail`)."""
    if tail >= 1.0:
        return 1.0
    return -math.expm1(candidates * math.log1p(-tail))


def p_value(distribution: Floats, count: int, candidates: int) -> float:
    """P(best count of `candidates` messages >= count) without a mark."""
    above = tails(distribution)
    return best_of(float(above[min(max(count, 0), len(above) - 1)]), candidates)


def smoothed_p_value(distribution: Floats, count: int, candidates: int, share: float) -> float:
    """As `p_value`, with `share` in (0, 1] of the probability of exactly this best count: uniform without a mark.

    Counts are whole numbers, so that plain p-values jump and are too large on average. With a `share` drawn evenly
    and independently of the count, P(p <= x) = x for every x.
    """
    reached, passed = p_value(distribution, count, candidates), p_value(distribution, count + 1, candidates)
    return passed + share * (reached - passed)


def critical_count(distribution: Floats, candidates: int, level: float) -> int:
    """The smallest count whose p-value is at most `level`; one more than can be reached if none is."""
    above = tails(distribution)
    single = -math.expm1(math.log1p(-level) / candidates) if level < 1 else 1.0
    return int(np.argmax(above <= single))


def tilted(term: Floats, delta: float) -> Floats:
    """A term's distribution for the embedded message: available tokens gained `delta` over unavailable ones."""
    weights: Floats = term * np.exp(delta * (np.arange(len(term)) - (len(term) - 1)))
    shares: Floats = weights / weights.sum()
    return shares


def power(terms: Sequence[Floats], delta: float, candidates: int, level: float) -> float:
    """P(a mark of strength `delta` in unedited text is seen at `level`)."""
    needed = critical_count(count_distribution(terms), candidates, level)
    marked = tails(count_distribution([tilted(term, delta) for term in terms]))
    return float(marked[min(needed, len(marked) - 1)])
