"""Prompts that begin alike: what is copied, what is counted, what is thrown out."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
from engine_tools import Answer, Asker, StartEngine, answer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_backend import ToyBackend, toy_answer

from services.generation.prefix_cache import BLOCK, PrefixCache


def keep(cache: PrefixCache, backend: ToyBackend, prompt: list[int]) -> None:
    backend.prefill(0, 0, prompt, False)
    cache.keep(0, np.array(prompt), len(prompt))


def restore(cache: PrefixCache, backend: ToyBackend, prompt: list[int]) -> int:
    """How many tokens came back, after checking that they are the right ones."""
    backend.release(1)
    found = cache.restore(1, np.array(prompt), max(0, len(prompt) - 2))
    assert backend.cache[0, 1, 0, :found, 0].tolist() == prompt[:found]
    assert (backend.cache[0, 1, 0, found:] == -1).all()
    return found


async def together(asker: Asker, prompts: list[list[int]], count: int) -> list[Answer]:
    """Ask all before the first is worked on."""
    asker.backend.ready.clear()
    generations = [asker.submit(prompt, count) for prompt in prompts]
    asker.backend.ready.set()
    return await asyncio.gather(*(answer_of(one) for one in generations))


tokens = st.lists(st.integers(3, 4), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(kept=st.lists(tokens, max_size=8), asked=tokens)
def test_the_longest_common_beginning_is_found_to_the_token(kept: list[list[int]], asked: list[int]) -> None:
    backend = ToyBackend(slots=2)
    cache = PrefixCache(backend, 10_000)
    longest = 0
    for prompt in kept:
        keep(cache, backend, prompt)
        agreed = next((i for i, (a, b) in enumerate(zip(prompt, asked, strict=False)) if a != b), None)
        longest = max(longest, min(len(prompt), len(asked)) if agreed is None else agreed)
    assert restore(cache, backend, asked) == min(longest, max(0, len(asked) - 2))


@settings(max_examples=50, deadline=None)
@given(kept=st.lists(tokens, max_size=12), budget=st.integers(0, 100))
def test_the_budget_holds_and_what_is_left_is_right(kept: list[list[int]], budget: int) -> None:
    backend = ToyBackend(slots=2)
    cache = PrefixCache(backend, budget)
    for prompt in kept:
        keep(cache, backend, prompt)
        assert cache.held <= budget
        restore(cache, backend, [*prompt, 9, 9])


def test_shared_beginnings_are_kept_once_and_the_least_recent_goes_first() -> None:
    backend = ToyBackend(slots=2)
    cache = PrefixCache(backend, 4 * BLOCK)
    start = [5] * (2 * BLOCK)
    keep(cache, backend, [*start, *[6] * BLOCK])
    keep(cache, backend, [*start, *[7] * BLOCK])
    assert cache.held == 4 * BLOCK
    assert restore(cache, backend, [*start, *[6] * BLOCK, 9, 9]) == 3 * BLOCK
    keep(cache, backend, [8] * BLOCK)
    assert restore(cache, backend, [*start, *[7] * BLOCK, 9, 9]) == 2 * BLOCK
    assert restore(cache, backend, [*start, *[6] * BLOCK, 9, 9]) == 3 * BLOCK


async def test_answers_do_not_depend_on_the_cache_and_hits_are_counted(start_engine: StartEngine) -> None:
    draw = random.Random(3)
    starts = [[draw.randrange(3, 320) for _ in range(40)] for _ in range(3)]
    asked = [[*draw.choice(starts)[: draw.randrange(1, 40)], *([9] * draw.randrange(1, 6))] for _ in range(60)]
    computed = {}
    for budget in (0, 500):
        async with start_engine(prefix_tokens=budget, prefill_chunk=16) as asker:
            answers = []
            for few in range(0, 60, 6):
                answers += await asyncio.gather(*(asker.ask(p, 5) for p in asked[few : few + 6]))
            assert [a.tokens for a in answers] == [toy_answer(p, 5) for p in asked]
            cached = sum(a.generation.usage.cached_tokens for a in answers)
            assert cached == sum(found for _, found in asker.tally.prefixes)
            assert asker.backend.computed + cached == sum(len(p) for p in asked)
            assert asker.tally.prompt_tokens == asker.backend.computed
            computed[budget] = asker.backend.computed
    assert computed[500] < 0.5 * sum(len(p) for p in asked)
    assert computed[0] > computed[500]


async def test_equal_prompts_at_once_are_computed_once(start_engine: StartEngine) -> None:
    prompt = list(range(10, 50))
    async with start_engine(prefix_tokens=0) as asker:
        answers = await together(asker, [prompt] * 8, 12)
        assert all(a.tokens == toy_answer(prompt, 12) for a in answers)
        assert asker.backend.computed == len(prompt)
        assert sorted(found for _, found in asker.tally.prefixes) == [0, *[40] * 7]


@pytest.mark.parametrize("chunk", [4, 64])
async def test_long_prompts_that_begin_alike_share_the_work_while_it_is_done(
    start_engine: StartEngine, chunk: int
) -> None:
    start = [7 + i % 50 for i in range(100)]
    async with start_engine(prefix_tokens=0, prefill_chunk=chunk) as asker:
        asked = [[*start, 200 + i, 8, 9] for i in range(4)]
        answers = await together(asker, asked, 4)
        assert [a.tokens for a in answers] == [toy_answer(p, 4) for p in asked]
        assert asker.backend.computed < 103 + 3 * (3 + chunk + 1)


async def test_scores_of_a_prompt_are_computed_even_if_it_is_known(start_engine: StartEngine) -> None:
    prompt = list(range(10, 40))
    async with start_engine() as asker:
        first = await asker.ask(prompt, 1)
        again = await asker.ask(prompt, 1, prompt_logprobs=2)
        assert again.tokens == first.tokens
        assert len(again.generation.prompt_scores) == 29
        assert again.generation.usage.cached_tokens == 0
