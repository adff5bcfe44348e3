"""The arithmetic everything else hangs on: one 64-bit mix, hash-ordered permutations, CPython's tuple hash.

All of it wraps in signed 64 bits, right shifts are arithmetic and remainders are never negative, so the same key gives
the same partition on every machine. The tuple hash is the one of 64-bit CPython 3.8 and later, written out here because
no language standard promises it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

WORD = 1 << 64
MERSENNE = (1 << 61) - 1  # CPython reduces integers modulo this prime
PRIME_1, PRIME_2, PRIME_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261  # xxHash
MINUS_ONE_TUPLE = 1546275796  # what CPython returns where the hash would be -1


def mix(keys: Int64) -> Int64:
    """int64 [...] -> int64 [...]: bijective, well spread (Thomas Wang's 64-bit mix on signed integers)."""
    mixed = np.array(keys, dtype=np.int64, ndmin=1)
    mix_in_place(mixed, np.empty_like(mixed))
    return mixed.reshape(np.shape(keys))


def mix_in_place(keys: Int64, scratch: Int64) -> None:
    """`keys` becomes its mix; `scratch` has its shape. No other memory is taken."""
    keys *= (1 << 21) - 1  # ~k + (k << 21)
    keys -= 1
    _fold(keys, scratch, 24)
    keys *= 1 + 8 + 256
    _fold(keys, scratch, 14)
    keys *= 1 + 4 + 16
    _fold(keys, scratch, 28)
    keys *= 1 + (1 << 31)


def _fold(keys: Int64, scratch: Int64, bits: int) -> None:
    np.right_shift(keys, bits, out=scratch)
    np.bitwise_xor(keys, scratch, out=keys)


def remainder_in_place(keys: Int64, divisor: int, scratch: Int64) -> None:
    """`keys` modulo a positive divisor, never negative; a division by a constant is much faster than `%`."""
    np.floor_divide(keys, divisor, out=scratch)
    scratch *= divisor
    keys -= scratch


def rank_keys(seeds: Int64, tokens: Int64, vocabulary: int) -> Int64:
    """Where each token stands in each seed's permutation: int64 [S], int64 [n] -> keys [S, n], smaller = earlier.

    The mix is bijective, so two tokens below `vocabulary` never share a key.
    """
    keys = seeds[:, None] * np.int64(vocabulary) + tokens
    mix_in_place(keys, np.empty_like(keys))
    return keys


def permutations(seeds: Int64, vocabulary: int) -> Int64:
    """int64 [S] -> int64 [S, vocabulary]: the tokens of each seed's permutation in order."""
    keys = rank_keys(seeds, np.arange(vocabulary, dtype=np.int64), vocabulary)
    return np.argsort(keys, axis=-1, kind="stable")


def tuple_hash(values: Sequence[int]) -> int:
    """CPython's hash of a tuple of integers, signed 64-bit."""
    state = PRIME_5
    for value in values:
        state = (state + _int_hash(value) * PRIME_2) % WORD
        state = ((state << 31) | (state >> 33)) % WORD
        state = state * PRIME_1 % WORD
    state = (state + (len(values) ^ (PRIME_5 ^ 3527539))) % WORD
    if state == WORD - 1:
        return MINUS_ONE_TUPLE
    return state - WORD if state >= WORD // 2 else state


def _int_hash(value: int) -> int:
    """CPython's hash of an integer, as an unsigned word."""
    reduced = abs(value) % MERSENNE * (1 if value >= 0 else -1)
    return (-2 if reduced == -1 else reduced) % WORD
