"""p-values: exact distributions, the best of many, and no more alarms on unmarked text than declared."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import Language, balanced, bigram
from scipy.stats import binom, kstest

from models.balance_marking.decoder import Decoder
from models.balance_marking.significance import (
    best_of,
    count_distribution,
    critical_count,
    p_value,
    poisson_binomial,
    power,
    smoothed_p_value,
    tails,
    tilted,
)

RATES = st.lists(st.floats(0, 1), max_size=7)


@settings(deadline=None)
@given(RATES)
def test_the_count_of_unequal_coins_is_that_of_all_their_outcomes(rates: list[float]) -> None:
    expected = np.zeros(len(rates) + 1)
    for outcome in itertools.product((0, 1), repeat=len(rates)):
        expected[sum(outcome)] += math.prod(r if hit else 1 - r for r, hit in zip(rates, outcome, strict=True))
    assert poisson_binomial(np.array(rates)) == pytest.approx(expected, abs=1e-12)


def test_equal_coins_give_the_binomial_far_into_the_tail() -> None:
    above = tails(poisson_binomial(np.full(200, 0.3)))
    for count in (0, 60, 120, 200):
        assert above[count] == pytest.approx(binom.sf(count - 1, 200, 0.3), rel=1e-9)
    assert above[-1] == 0


def test_votes_that_come_together_widen_the_distribution() -> None:
    together = count_distribution([np.array([0.5, 0.0, 0.5])])
    assert together.tolist() == [0.5, 0.0, 0.5]


def test_the_best_of_many_is_judged_as_the_best_of_many() -> None:
    assert best_of(0.01, 1) == pytest.approx(0.01)
    assert best_of(0.01, 100) == pytest.approx(1 - 0.99**100)
    assert best_of(1e-18, 1 << 20) == pytest.approx(1e-18 * 2**20, rel=1e-6)
    assert best_of(1.0, 5) == 1.0
    assert best_of(0.0, 5) == 0.0


def test_the_critical_count_is_the_first_that_is_significant() -> None:
    distribution = poisson_binomial(np.full(60, 0.6))
    needed = critical_count(distribution, 1 << 10, 0.01)
    assert p_value(distribution, needed, 1 << 10) <= 0.01 < p_value(distribution, needed - 1, 1 << 10)
    assert critical_count(poisson_binomial(np.full(5, 0.6)), 1 << 20, 0.01) == 6  # out of reach


def test_smoothing_stays_between_this_count_and_the_next() -> None:
    distribution = poisson_binomial(np.full(50, 0.5))
    assert smoothed_p_value(distribution, 30, 64, 1.0) == pytest.approx(p_value(distribution, 30, 64))
    assert smoothed_p_value(distribution, 30, 64, 0.0) == pytest.approx(p_value(distribution, 31, 64))


def test_a_mark_tilts_the_odds_by_its_strength() -> None:
    assert tilted(np.array([0.4, 0.6]), 2.0)[1] == pytest.approx(0.6 / (0.6 + 0.4 * math.exp(-2)))
    terms = [np.array([0.4, 0.6])] * 120
    strong, weak = power(terms, 3.0, 1 << 10, 0.01), power(terms, 0.5, 1 << 10, 0.01)
    assert weak < 0.1 < 0.99 < strong


@pytest.fixture(scope="module")
def readings() -> list[tuple[float, float]]:
    """(smoothed, plain) p-values of unmarked texts, a third of them repetitive."""
    language = Language(2)
    decoder = Decoder(partition=balanced(bigram(language, texts=10), permutations=25))
    found = []
    for seed in range(300):
        ids = language.text(90, seed)
        if seed % 3 == 0:
            ids = ids[:30] * 3
        [segment] = decoder.read(ids).segments
        found.append((segment.p_value, segment.p_at_most))
    return found


def test_p_values_of_unmarked_texts_are_uniform(readings: list[tuple[float, float]]) -> None:
    assert kstest([smoothed for smoothed, _ in readings], "uniform").pvalue > 0.01


def test_plain_p_values_never_promise_more(readings: list[tuple[float, float]]) -> None:
    assert all(0 <= smoothed <= plain <= 1 for smoothed, plain in readings)
    for level in (0.01, 0.05, 0.2):
        assert np.mean([plain <= level for _, plain in readings]) <= level + 3 * math.sqrt(level * (1 - level) / 300)
