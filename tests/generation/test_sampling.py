"""Sampling against plain definitions of every option, and against the distributions they describe."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from services.generation.request import GenerationRequest, Sampling
from services.generation.sampling import NotNumbersError, RuledOutError, Sampler, candidates, scores

sizes = st.integers(2, 60)
logits_of = st.tuples(sizes, st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 5.0, 20.0])).map(
    lambda given: (np.random.default_rng(given[1]).standard_normal(given[0]) * given[2]).astype(np.float32)
)


def sampler(prompt: tuple[int, ...] = (0,), **options: object) -> Sampler:
    return Sampler(GenerationRequest(prompt=prompt, max_tokens=99, sampling=Sampling(**options)))  # type: ignore[arg-type]


def plain_distribution(logits: np.ndarray, sampling: Sampling) -> dict[int, float]:
    """Token -> probability, by the definitions, in float64, one token at a time."""
    scaled = logits.astype(np.float64) / sampling.temperature
    weights = {token: float(np.exp(value - scaled.max())) for token, value in enumerate(scaled)}
    if sampling.top_k:
        smallest = sorted(logits, reverse=True)[: sampling.top_k][-1]
        weights = {token: w for token, w in weights.items() if logits[token] >= smallest}
    if sampling.top_p < 1:
        kept, reached, total = {}, 0.0, sum(weights.values())
        for token in sorted(weights, key=lambda t: (-weights[t], t)):
            kept[token] = weights[token]
            reached += weights[token]
            if reached >= sampling.top_p * total:
                break
        weights = kept
    weights = {token: w for token, w in weights.items() if w >= sampling.min_p * max(weights.values())}
    total = sum(weights.values())
    return {token: w / total for token, w in weights.items()}


@settings(max_examples=300, deadline=None)
@given(
    logits=logits_of,
    temperature=st.floats(0.05, 4),
    top_k=st.integers(0, 70),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.1, 0.01]),
    min_p=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
)
def test_candidates_and_weights_are_those_of_the_definitions(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    expected = plain_distribution(logits, sampling)
    ids, weights = candidates(logits, int(logits.argmax()), sampling)
    ids = np.arange(len(logits)) if ids is None else ids
    got = dict(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True))
    for token in got.keys() | expected.keys():
        # a token that stands exactly on a border may fall on either side of it by rounding
        assert got.get(token, 0.0) == pytest.approx(expected.get(token, 0.0), rel=1e-4, abs=1e-4)


def test_top_p_finds_a_nucleus_of_many_tokens_too() -> None:
    logits = np.linspace(0, 1e-3, 5000, dtype=np.float32)
    ids, _ = candidates(logits, 4999, Sampling(top_p=0.5))
    assert ids is not None
    assert len(ids) == pytest.approx(2500, abs=2)
    assert ids[-1] == 4999
    steep = np.log(np.r_[np.full(10, 1e-5), 1.0, np.full(20000, 1e-7)]).astype(np.float32)
    ids, _ = candidates(steep, 10, Sampling(top_p=0.9995))
    assert ids is not None
    assert len(ids) < 20011
    assert set(range(11)) <= set(ids.tolist())


@settings(max_examples=100, deadline=None)
@given(logits=logits_of, data=st.data())
def test_penalties_and_biases_are_those_of_the_definitions(logits: np.ndarray, data: st.DataObject) -> None:
    token = st.integers(0, len(logits) - 1)
    prompt = tuple(data.draw(st.lists(token, min_size=1, max_size=5)))
    bias = data.draw(st.dictionaries(token, st.floats(-5, 5), max_size=4))
    repetition, presence, frequency = data.draw(st.tuples(st.floats(0.5, 2), st.floats(-2, 2), st.floats(-2, 2)))
    ours = sampler(
        prompt, temperature=0, logit_bias=bias, repetition_penalty=repetition, presence_penalty=presence,
        frequency_penalty=frequency,
    )  # fmt: skip
    generated: list[int] = []
    for _ in range(4):
        expected = logits.astype(np.float64)
        for biased, value in bias.items():
            expected[biased] += value
        for seen in {*prompt, *generated}:
            expected[seen] = expected[seen] / repetition if expected[seen] > 0 else expected[seen] * repetition
        for seen, count in Counter(generated).items():
            expected[seen] -= presence + frequency * count
        row = logits.copy()
        chosen = ours.next(row, generated, None)
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-4)
        assert expected[chosen] >= expected.max() - 1e-4
        generated.append(chosen)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.6},
        {"top_k": 5},
        {"top_p": 0.7},
        {"min_p": 0.1},
        {"top_k": 12, "top_p": 0.9, "min_p": 0.05, "temperature": 1.5},
    ],
)
def test_seeded_draws_follow_the_distribution(options: dict[str, float]) -> None:
    logits = np.random.default_rng(7).standard_normal(24).astype(np.float32) * 1.5
    expected = plain_distribution(logits, Sampling(**options))  # type: ignore[arg-type]
    ours = sampler(seed=11, **options)
    draws = Counter(ours.next(logits.copy(), (), None) for _ in range(20_000))
    assert set(draws) <= set(expected)
    likely = [token for token, share in expected.items() if share * 20_000 >= 5]
    counts = np.array([draws[token] for token in likely], float)
    shares = np.array([expected[token] for token in likely])
    assert chisquare(counts, shares / shares.sum() * counts.sum()).pvalue > 1e-3


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    logits = np.zeros(1000, np.float32)

    def drawn(seed: int | None) -> list[int]:
        ours = sampler(seed=seed)
        return [ours.next(logits.copy(), (), None) for _ in range(8)]

    assert drawn(5) == drawn(5)
    assert drawn(-5) == drawn(-5)
    assert drawn(2**70) == drawn(2**70)
    assert drawn(5) != drawn(6)
    assert drawn(None) != drawn(None)


def test_a_mask_and_a_vanishing_temperature_are_obeyed() -> None:
    logits = np.arange(10, dtype=np.float32)
    allowed = np.arange(10) < 4
    assert sampler(temperature=0).next(logits.copy(), (), allowed) == 3
    assert sampler(temperature=1e-30).next(logits.copy(), (), None) == 9
    assert all(sampler(seed=s, temperature=5).next(logits.copy(), (), allowed) < 4 for s in range(20))
    with pytest.raises(RuledOutError):
        sampler().next(logits.copy(), (), np.zeros(10, np.bool_))


def test_logits_that_are_not_numbers_are_noticed() -> None:
    logits = np.zeros(10, np.float32)
    logits[3] = np.nan
    with pytest.raises(NotNumbersError):
        sampler().next(logits.copy(), (), None)
    with pytest.raises(NotNumbersError):
        scores(logits, 0, 2)


@settings(max_examples=100, deadline=None)
@given(logits=logits_of, top=st.integers(0, 70))
def test_log_probabilities_are_those_of_softmax(logits: np.ndarray, top: int) -> None:
    exact = logits.astype(np.float64)
    exact = exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())
    token = len(logits) // 2
    score = scores(logits, token, top)
    assert (score.token, score.logprob) == (token, pytest.approx(exact[token], abs=1e-5))
    best = sorted(range(len(logits)), key=lambda t: (-logits[t], t))[:top]
    assert [t for t, _ in score.top] == best
    assert [value for _, value in score.top] == pytest.approx([exact[t] for t in best], abs=1e-5)
