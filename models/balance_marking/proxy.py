"""Proxies: cheap guesses of the next token, by whose probability the vocabulary is halved.

Any callable with a window and a vocabulary serves: the language model itself, a smaller one, or the bigram counts here.
Encoder and decoder must use the same one, bit by bit; therefore probabilities become multiples of 2^-40, whose sums are
exact in float64 in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from models.balance_marking.config import MarkingError
from models.balance_marking.hashing import Int64

GRAIN = float(1 << 40)


@dataclass(frozen=True)
class Distribution:
    """Probabilities of the next token; what is not listed has none. A token listed twice has their sum.

    tokens   int64 [n]    weights  float64 [n], multiples of 2^-40
    """

    tokens: Int64
    weights: npt.NDArray[np.float64]

    @staticmethod
    def of(tokens: npt.NDArray[Any], probabilities: npt.NDArray[Any]) -> Distribution:
        """Round probabilities [n] to the grain."""
        return Distribution(tokens.astype(np.int64), np.rint(probabilities.astype(np.float64) * GRAIN) / GRAIN)

    @staticmethod
    def dense(probabilities: npt.NDArray[Any], keep: int = 0) -> Distribution:
        """Of a whole vocabulary [V]; `keep` > 0: of its likeliest `keep` tokens, scaled to sum to 1."""
        if not 0 < keep < len(probabilities):
            return Distribution.of(np.arange(len(probabilities)), probabilities)
        order = np.argsort(-probabilities.astype(np.float64), kind="stable")[:keep]
        kept = probabilities[order].astype(np.float64)
        return Distribution.of(order, kept / kept.sum())


class Proxy(Protocol):
    """Guesses the next token of a text."""

    @property
    def window(self) -> int:
        """Tokens it looks at, >= 1: the guess depends on nothing else."""

    @property
    def vocabulary(self) -> int:
        """Its tokens are 0 .. vocabulary - 1."""

    def __call__(self, context: tuple[int, ...]) -> Distribution:
        """The last `window` tokens, fewer at the start of a text -> probabilities of the next."""


class BigramProxy:
    """Counts of neighbouring tokens, smoothed by the most frequent tokens overall (Witten and Bell).

    p(v | u) = c(u, v) / (c(u) + d(u)) + d(u) / (c(u) + d(u)) q(v), with d(u) the number of different followers of u and
    q the share of v among the most frequent tokens. A token never seen before the end of a pair is guessed by q alone.
    """

    window = 1

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """`arrays` as `arrays()` gives them. Raises MarkingError where they do not fit together."""
        try:
            self._starts = arrays["starts"].astype(np.int64)
            self._followers = arrays["followers"].astype(np.int64)
            self._counts = arrays["counts"].astype(np.float64)
            self._frequent = arrays["frequent"].astype(np.int64)
            self._frequency = arrays["frequency"].astype(np.float64)
        except KeyError as error:
            raise MarkingError("proxy", f"array {error} is missing.", "Build the proxy again.") from error
        self.vocabulary = len(self._starts) - 1
        self._check()
        self._share = self._frequency / self._frequency.sum()
        self._overall = Distribution.of(self._frequent, self._share)

    @classmethod
    def from_texts(
        cls, texts: Iterable[Sequence[int]], vocabulary: int, *, frequent: int = 1000, followers: int = 256
    ) -> BigramProxy:
        """Count token ids of texts; keep the `frequent` tokens overall and each token's likeliest `followers`.

        Ties go to the smaller id. Raises MarkingError where there is no token, or one outside the vocabulary.
        """
        tokens, pairs = _count(texts, vocabulary)
        order = np.argsort(-tokens, kind="stable")[:frequent]
        order = order[tokens[order] > 0]
        codes, counts = np.unique(pairs, return_counts=True)
        first, second = codes // vocabulary, codes % vocabulary
        ranked = np.lexsort((second, -counts, first))
        first, second, counts = first[ranked], second[ranked], counts[ranked]
        starts = np.searchsorted(first, np.arange(vocabulary + 1))
        kept = np.arange(len(first)) - starts[first] < followers
        kept_starts = np.searchsorted(first[kept], np.arange(vocabulary + 1))
        return cls(
            {
                "starts": kept_starts.astype(np.uint32),
                "followers": second[kept].astype(np.uint32),
                "counts": counts[kept].astype(np.uint32),
                "frequent": order.astype(np.uint32),
                "frequency": tokens[order].astype(np.uint32),
            }
        )

    def arrays(self) -> dict[str, npt.NDArray[np.uint32]]:
        """What the proxy is, for a file: uint32 arrays by name."""
        named = {
            "starts": self._starts,
            "followers": self._followers,
            "counts": self._counts,
            "frequent": self._frequent,
            "frequency": self._frequency,
        }
        return {name: np.asarray(values).astype(np.uint32) for name, values in named.items()}

    def __call__(self, context: tuple[int, ...]) -> Distribution:
        """See the class; () gives the frequent tokens. Raises MarkingError for a token outside the vocabulary."""
        if not context:
            return self._overall
        if not 0 <= context[-1] < self.vocabulary:
            raise MarkingError("proxy", f"token {context[-1]} is outside its vocabulary.", "Use the model's tokenizer.")
        start, end = self._starts[context[-1]], self._starts[context[-1] + 1]
        counts, different = self._counts[start:end], float(end - start)
        if not different:
            return self._overall
        whole = counts.sum() + different
        tokens = np.concatenate([self._followers[start:end], self._frequent])
        return Distribution.of(tokens, np.concatenate([counts / whole, different / whole * self._share]))

    def _check(self) -> None:
        fits = (
            self.vocabulary >= 2
            and len(self._frequent) == len(self._frequency) > 0
            and len(self._followers) == len(self._counts) == self._starts[-1]
            and self._starts[0] == 0
            and bool((np.diff(self._starts) >= 0).all())
            and all(_within(ids, self.vocabulary) for ids in (self._followers, self._frequent))
            and bool((self._counts > 0).all() and (self._frequency > 0).all())
        )
        if not fits:
            raise MarkingError("proxy", "its arrays do not fit together.", "Build the proxy again.")


def _count(texts: Iterable[Sequence[int]], vocabulary: int) -> tuple[Int64, Int64]:
    """(how often each token occurs [V], code u * V + v of every pair of neighbours)."""
    tokens, pairs = np.zeros(vocabulary, np.int64), [np.empty(0, np.int64)]
    for text in texts:
        ids = np.asarray(text, dtype=np.int64)
        if not _within(ids, vocabulary):
            raise MarkingError("proxy", "a text holds a token outside the vocabulary.", "Use the model's tokenizer.")
        tokens += np.bincount(ids, minlength=vocabulary)
        pairs.append(ids[:-1] * vocabulary + ids[1:])
    if not tokens.any():
        raise MarkingError("proxy", "the texts hold no token.", "Give text to count.")
    return tokens, np.concatenate(pairs)


def _within(ids: Int64, vocabulary: int) -> bool:
    return bool(((ids >= 0) & (ids < vocabulary)).all())
