"""Hashes: the same numbers as CPython and as arithmetic on unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.balance_marking.hashing import mix, permutations, remainder_in_place, tuple_hash

WORDS = st.integers(-(2**63), 2**63 - 1)


def signed(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def slow_mix(key: int) -> int:
    """The same steps with shifts, wrapped by hand."""
    key = signed(~key + (key << 21))
    key ^= key >> 24
    key = signed(key + (key << 3) + (key << 8))
    key ^= key >> 14
    key = signed(key + (key << 2) + (key << 4))
    key ^= key >> 28
    return signed(key + (key << 31))


@given(st.lists(WORDS, min_size=1, max_size=20))
def test_the_mix_wraps_and_shifts_as_signed_64_bit_integers_do(keys: list[int]) -> None:
    assert mix(np.array(keys, np.int64)).tolist() == [slow_mix(key) for key in keys]


@given(st.lists(st.integers(-(2**70), 2**70), max_size=6))
def test_tuples_hash_as_in_cpython(values: list[int]) -> None:
    assert tuple_hash(values) == hash(tuple(values))


@pytest.mark.parametrize("value", [-1, 0, 2**61 - 1, 2**61 - 2, -(2**61 - 1), -(2**61)])
def test_integers_at_the_edges_hash_as_in_cpython(value: int) -> None:
    assert tuple_hash((value, 42)) == hash((value, 42))


@given(WORDS, st.integers(1, 70_000))
def test_remainders_are_never_negative(key: int, divisor: int) -> None:
    keys = np.array([key], np.int64)
    remainder_in_place(keys, divisor, np.empty_like(keys))
    assert keys.tolist() == [key % divisor]


@given(WORDS, st.integers(2, 60))
def test_a_permutation_orders_tokens_by_their_hash(seed: int, vocabulary: int) -> None:
    [order] = permutations(np.array([seed], np.int64), vocabulary)
    hashed = [slow_mix(signed(seed * vocabulary + token)) for token in range(vocabulary)]
    assert order.tolist() == sorted(range(vocabulary), key=hashed.__getitem__)
