"""How a message splits the vocabulary at a position: by the proxy's probability, or at random.

`BalancedPartition` (the paper's method): of P permutations of the vocabulary a hash of text and message picks one; the
tokens along it up to the proxy's half of the probability are unavailable, the one that crosses the half and all after
it are available. A token the proxy gives half or more is therefore available to every message.
`RandomPartition` (vanilla marking): a hash of text, message and token decides, half and half.

Positions count generated tokens from 0. What stands before a position is hashed with the secret key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from models.balance_marking.config import MarkingConfig, MarkingError
from models.balance_marking.hashing import Int64, mix, rank_keys, tuple_hash
from models.balance_marking.proxy import Distribution, Proxy
from models.balance_marking.votes import PairVotes, TableVotes, Votes

HALF = 0.5
HASHED_BITS = 32  # the text's and the message's share of what picks a permutation
STRIDE = 100_000  # of tokens in vanilla marking's hash
BLOCK = 1 << 18  # rank keys held at once
FEW = 8  # tokens up to which summing beats sorting

Bools = npt.NDArray[np.bool_]


class Partition(Protocol):
    """Splits the vocabulary, for the encoder one message at a time, for the decoder all of them."""

    @property
    def config(self) -> MarkingConfig:
        """What encoder and decoder agree on."""

    @property
    def held_back(self) -> bool:
        """True: unavailable tokens lose delta; False: available ones gain it."""

    def available(self, before: Sequence[int], message: int, tokens: Int64) -> Bools:
        """After the tokens `before`, which of `tokens` [n] are available to a message: bool [n]."""

    def votes(self, ids: Sequence[int], positions: Sequence[int]) -> Votes:
        """For which messages the tokens of a text at these positions were available."""


@dataclass(frozen=True)
class BalancedPartition:
    """Halves of equal proxy probability."""

    config: MarkingConfig
    proxy: Proxy
    held_back: bool = True

    def __post_init__(self) -> None:
        if self.proxy.vocabulary != self.config.vocabulary:
            told = f"{self.config.vocabulary} tokens, but the proxy has {self.proxy.vocabulary}."
            raise MarkingError("vocabulary", told, "Use the proxy of the model's tokenizer.")

    def available(self, before: Sequence[int], message: int, tokens: Int64) -> Bools:
        """See Partition."""
        seed = prefix_seed(before, self.config)
        index = permutation_index(np.array([seed]), np.array([message]), self.config)[0]
        seeds = permutation_seeds(seed, self.config)[index]
        available: Bools = self._along(seeds, self.proxy(self._context(before)), tokens)[0]
        return available

    def table(self, ids: Sequence[int], positions: Sequence[int]) -> Bools:
        """Whether the token at each position is available under each permutation: bool [positions, P]."""
        table = np.empty((len(positions), self.config.permutations), bool)
        rows: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for row, position in enumerate(positions):
            before = ids[max(0, position - self.config.window) : position]
            rows.setdefault((prefix_seed(before, self.config), self._context(before)), []).append(row)
        for (seed, context), members in rows.items():
            tokens = np.array([ids[positions[row]] for row in members], np.int64)
            seeds = permutation_seeds(seed, self.config)
            table[members] = self._along(seeds, self.proxy(context), tokens).T
        return table

    def votes(self, ids: Sequence[int], positions: Sequence[int]) -> TableVotes:
        """See Partition."""
        seeds = prefix_seeds(ids, positions, self.config)
        return TableVotes(message_bases(seeds, self.config), self.table(ids, positions).astype(np.int32))

    def _context(self, before: Sequence[int]) -> tuple[int, ...]:
        return tuple(before[-min(self.proxy.window, self.config.window) :])

    def _along(self, seeds: Int64, guess: Distribution, tokens: Int64) -> Bools:
        """bool [seeds, n]: does the probability up to and with the token reach the half?"""
        tokens, step = np.asarray(tokens, np.int64), max(1, BLOCK // max(1, len(guess.tokens)))
        rows = []
        for start in range(0, len(seeds), step):
            own = rank_keys(seeds[start : start + step], tokens, self.config.vocabulary)
            others = rank_keys(seeds[start : start + step], guess.tokens, self.config.vocabulary)
            if len(tokens) > FEW:  # one sorting answers many tokens
                rows.append(own >= _crossings(others, guess.weights)[:, None])
            else:
                rows.append(_reached(own, others, guess.weights) >= HALF)
        return np.concatenate(rows)


@dataclass(frozen=True)
class RandomPartition:
    """Halves of the vocabulary by a hash alone."""

    config: MarkingConfig
    held_back: bool = False
    stride: int = STRIDE  # at least the vocabulary keeps tokens apart

    def available(self, before: Sequence[int], message: int, tokens: Int64) -> Bools:
        """See Partition."""
        base = message_bases(np.array([prefix_seed(before, self.config)]), self.config)
        picked = mix(base + np.int64(message)) * np.int64(self.stride)
        return (mix(picked + np.asarray(tokens, np.int64)) & 1).astype(bool)

    def votes(self, ids: Sequence[int], positions: Sequence[int]) -> PairVotes:
        """See Partition."""
        bases = message_bases(prefix_seeds(ids, positions, self.config), self.config)
        return PairVotes(bases, np.array([ids[position] for position in positions], np.int64), self.stride)


@lru_cache(maxsize=1 << 16)
def _seed(window: tuple[int, ...], key: int) -> int:
    return tuple_hash((*window, key))


def prefix_seed(before: Sequence[int], config: MarkingConfig) -> int:
    """The hash of the last `hash_window` tokens and the key, signed 64-bit."""
    return _seed(tuple(int(token) for token in before[-config.hash_window :]), config.key)


def prefix_seeds(ids: Sequence[int], positions: Sequence[int], config: MarkingConfig) -> Int64:
    """int64 [positions]."""
    seeds = [prefix_seed(ids[max(0, p - config.hash_window) : p], config) for p in positions]
    return np.array(seeds, np.int64)


def message_bases(seeds: Int64, config: MarkingConfig) -> Int64:
    """int64 [n] -> int64 [n]: what a message is added to before it is hashed; below 2^32."""
    return seeds % np.int64(1 << (HASHED_BITS - config.message_bits)) << np.int64(config.message_bits)


def permutation_index(seeds: Int64, messages: Int64, config: MarkingConfig) -> Int64:
    """int64 [n], int64 [M] -> int64 [n, M]: which of the P permutations a message uses."""
    return mix(message_bases(seeds, config)[:, None] + messages) % np.int64(config.permutations)


def permutation_seeds(seed: int, config: MarkingConfig) -> Int64:
    """int64 [P]: seeds of the permutations at a position."""
    return mix(np.array([seed]) * np.int64(config.permutations) + np.arange(config.permutations))


def _reached(own: Int64, others: Int64, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[S, n], [S, m], [m] -> [S, n]: summed weight of the keys up to each own key."""
    summed = np.empty(own.shape)
    for column in range(own.shape[1]):
        summed[:, column] = np.where(others <= own[:, [column]], weights, 0.0).sum(axis=1)
    return summed


def _crossings(keys: Int64, weights: npt.NDArray[np.float64]) -> Int64:
    """int64 [S, n], [n] -> int64 [S]: the key at which the summed weight reaches the half.

    The largest integer where it never does: nothing is available then.
    """
    order = np.argsort(keys, axis=1)
    summed = np.cumsum(weights[order], axis=1)
    reached = (summed >= HALF).argmax(axis=1)
    found = np.take_along_axis(keys, np.take_along_axis(order, reached[:, None], 1), 1)[:, 0]
    return np.where(summed[:, -1] >= HALF, found, np.iinfo(np.int64).max)
