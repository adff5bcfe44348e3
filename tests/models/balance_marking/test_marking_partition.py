"""Partitions: halves of probability, the same for encoder and decoder, for every proxy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import VOCABULARY, Language, balanced, bigram, naive_counts

from models.balance_marking.config import MarkingConfig, MarkingError
from models.balance_marking.counting import count_all, count_these, leaders
from models.balance_marking.hashing import mix, permutations, tuple_hash
from models.balance_marking.partition import BalancedPartition, RandomPartition, permutation_seeds
from models.balance_marking.proxy import BigramProxy, Distribution

PROXY = bigram(Language(1), texts=10)


class Fixed:
    """A proxy with one answer."""

    window, vocabulary = 2, 12

    def __init__(self, probabilities: list[float]) -> None:
        self.guess = Distribution.dense(np.array(probabilities))

    def __call__(self, context: tuple[int, ...]) -> Distribution:
        return self.guess


def fixed(probabilities: list[float]) -> BalancedPartition:
    config = MarkingConfig(vocabulary=12, key=5, message_bits=6, window=2, permutations=7)
    return BalancedPartition(config, Fixed(probabilities))


def slow_available(partition: BalancedPartition, before: list[int], message: int) -> list[bool]:
    """By the definition: walk along the permutation, exact sums."""
    config, weights = partition.config, partition.proxy(tuple(before)).weights
    seed = tuple_hash((before[-1], config.key))
    base = seed % 2 ** (32 - config.message_bits) * 2**config.message_bits
    index = int(mix(np.array([base + message]))[0]) % config.permutations
    [order] = permutations(permutation_seeds(seed, config)[[index]], config.vocabulary)
    found, total = [False] * config.vocabulary, Fraction(0)
    for token in order:
        total += Fraction(float(weights[token]))
        found[token] = total >= Fraction(1, 2)
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=12, max_size=12).filter(any), st.integers(0, 63), st.integers(0, 11))
def test_the_proxys_half_along_the_permutation_is_held_back(shares: list[int], message: int, last: int) -> None:
    partition = fixed([share / sum(shares) for share in shares])
    expected = slow_available(partition, [3, last], message)
    assert partition.available([3, last], message, np.arange(12)).tolist() == expected
    singly = [bool(partition.available([3, last], message, np.array([token]))[0]) for token in range(12)]
    assert singly == expected


def test_a_token_of_half_the_probability_is_available_to_every_message() -> None:
    partition = fixed([0.5] + [0.5 / 11] * 11)
    assert all(partition.available([1, 2], message, np.array([0]))[0] for message in range(64))


def test_equal_sums_do_not_depend_on_the_order_they_are_taken_in() -> None:
    partition = fixed([1 / 6] * 6 + [0.0] * 6)
    for message in range(64):
        whole = partition.available([1, 2], message, np.arange(12))
        assert [bool(partition.available([1, 2], message, np.array([t]))[0]) for t in range(12)] == whole.tolist()


def test_the_table_says_for_each_permutation_what_the_encoder_would() -> None:
    partition, ids = balanced(PROXY, message_bits=6), Language(1).text(40, 3)
    positions = list(range(3, 40))
    assert count_all(partition.votes(ids, positions), 64).tolist() == naive_counts(partition, ids, positions)


def test_votes_of_positions_that_share_a_permutation_add_up() -> None:
    partition, ids = balanced(PROXY), Language(1).text(120, 3)
    votes = partition.votes(ids, list(range(3, 120)))
    assert len(votes.merged().bases) < votes.positions
    assert (count_all(votes.merged(), 1024) == count_all(votes, 1024)).all()


def test_threads_and_lists_of_messages_change_no_count() -> None:
    votes = balanced(PROXY, message_bits=16).votes(ids := Language(1).text(30, 4), list(range(3, len(ids))))
    counts = count_all(votes, 1 << 16)
    assert (count_all(votes, 1 << 16, threads=3) == counts).all()
    chosen = np.array([0, 17, 40_000, 65_535])
    assert (count_these(votes, chosen) == counts[chosen]).all()


def test_vanilla_marking_splits_by_hash_alone() -> None:
    config = MarkingConfig(vocabulary=50, key=42, message_bits=5, window=1)
    partition, ids = RandomPartition(config), [3, 4, 3, 4, 49, 0]
    expected = [
        sum(bool(partition.available(ids[:p], m, np.array([ids[p]]))[0]) for p in range(1, 6)) for m in range(32)
    ]
    assert count_all(partition.votes(ids, range(1, 6)), 32).tolist() == expected
    rates = [partition.available([t], m, np.arange(50)).mean() for t in range(50) for m in range(32)]
    assert abs(np.mean(rates) - 0.5) < 0.01


def test_leaders_come_by_count_then_by_message() -> None:
    best = leaders(np.array([3, 9, 9, 1, 4], np.int32), None, 4)
    assert [(one.message, one.count) for one in best] == [(1, 9), (2, 9), (4, 4), (0, 3)]
    assert leaders(np.array([3, 9], np.int32), np.array([70, 50]), 5)[0].message == 50


def test_bigram_probabilities_follow_the_counts() -> None:
    proxy = BigramProxy.from_texts([[1, 2, 1, 2, 1, 3]], 5)
    guess = proxy((4, 1))
    by_token = np.bincount(guess.tokens, guess.weights, minlength=5)
    # after 1: 2 twice, 3 once; two different followers; overall 1 x3, 2 x2, 3 x1 of 6
    assert by_token.tolist() == pytest.approx(
        [0, 2 / 5 * 3 / 6, 2 / 5 + 2 / 5 * 2 / 6, 1 / 5 + 2 / 5 / 6, 0], abs=1e-11
    )
    assert proxy((3,)).weights.sum() == pytest.approx(1)  # never seen before another
    assert proxy(()).tokens.tolist() == [1, 2, 3]


def test_a_bigram_proxy_survives_its_arrays() -> None:
    again = BigramProxy(PROXY.arrays())
    for token in range(VOCABULARY):
        assert (again((token,)).weights == PROXY((token,)).weights).all()
    assert again((5,)).weights.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", ["starts", "followers", "counts", "frequent", "frequency"])
def test_a_damaged_bigram_proxy_is_refused(name: str) -> None:
    arrays = PROXY.arrays()
    with pytest.raises(MarkingError, match="is missing"):
        BigramProxy({other: values for other, values in arrays.items() if other != name})
    with pytest.raises(MarkingError, match="do not fit together"):
        BigramProxy(arrays | {name: arrays[name][:-1]})


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(MarkingError, match="outside the vocabulary"):
        BigramProxy.from_texts([[0, 5]], 5)
    with pytest.raises(MarkingError, match="hold no token"):
        BigramProxy.from_texts([[]], 5)
    with pytest.raises(MarkingError, match="outside its vocabulary"):
        PROXY((VOCABULARY,))
    with pytest.raises(MarkingError, match="but the proxy has 80"):
        balanced(PROXY, vocabulary=81)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocabulary", 1),
        ("message_bits", 0),
        ("message_bits", 21),
        ("hash_window", 0),
        ("window", 0),
        ("permutations", 1),
        ("permutations", 70_000),
        ("top_k", -1),
        ("tokens_per_bit", 0.0),
        ("tokens_per_bit", float("inf")),
        ("tokens_per_bit", float("nan")),
        ("delta", -1.0),
        ("reach", -1.0),
        ("reach", float("inf")),
        ("delta", float("nan")),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(MarkingError) as refused:
        MarkingConfig(**({"vocabulary": 10, "key": 1} | {field: value}))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_segment_is_as_long_as_its_decimals_say() -> None:
    assert MarkingConfig(vocabulary=2, key=1, message_bits=20, tokens_per_bit=0.35).segment_tokens == 7
