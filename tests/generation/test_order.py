"""Whose turn it is, and who gets memory."""

from __future__ import annotations

import asyncio
from threading import Semaphore

import pytest
from engine_tools import GREEDY, StartEngine, answer_of
from toy_backend import ToyBackend

from services.generation.request import GenerationRequest
from services.generation.scheduler import PATIENCE_S, Scheduler
from services.generation.sequence import Sequence, make_sequence
from services.generation.tokenizer import Tokenizer


def sequence(
    tokenizer: Tokenizer, mark: int, tokens: int = 8, *, interactive: bool = True, submitted: float = 0.0
) -> Sequence:
    request = GenerationRequest(prompt=(mark,) * (tokens // 2), max_tokens=tokens - tokens // 2, sampling=GREEDY)
    return make_sequence(request, tokenizer, frozenset(), submitted, None, interactive)


def admitted(scheduler: Scheduler) -> list[int]:
    """Marks of those that are let in now."""
    return [int(one.prompt[0]) for one in scheduler.admit()]


def end_one(scheduler: Scheduler) -> None:
    scheduler.remove(scheduler.prefilling[0])


def test_within_a_priority_who_came_first_goes_first(tokenizer: Tokenizer) -> None:
    scheduler = Scheduler(ToyBackend(slots=1), 100)
    for mark in range(3, 8):
        scheduler.waiting.add(sequence(tokenizer, mark))
    order = []
    while scheduler.waiting:
        order += admitted(scheduler)
        end_one(scheduler)
    assert order == [3, 4, 5, 6, 7]


def test_interactive_goes_before_batch_until_batch_has_waited_long_enough(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("services.generation.scheduler.perf_counter", lambda: now)
    scheduler = Scheduler(ToyBackend(slots=1), 100)
    for mark in (3, 4, 5, 6, 7, 8):
        scheduler.waiting.add(sequence(tokenizer, mark, interactive=mark >= 6, submitted=now))
    assert admitted(scheduler) == [6]
    end_one(scheduler)
    now += PATIENCE_S + 0.1  # from now on they take turns: neither starves
    order = []
    while scheduler.waiting:
        order += admitted(scheduler)
        end_one(scheduler)
    assert order == [3, 7, 4, 8, 5]


def test_nobody_overtakes_one_that_waits_for_memory(tokenizer: Tokenizer) -> None:
    scheduler = Scheduler(ToyBackend(slots=4), 100)
    for mark, tokens in ((3, 60), (4, 60), (5, 8)):
        scheduler.waiting.add(sequence(tokenizer, mark, tokens))
    assert admitted(scheduler) == [3]
    assert scheduler.reserved == 60
    end_one(scheduler)
    assert admitted(scheduler) == [4, 5]
    assert scheduler.reserved == 68


async def test_prompts_are_worked_on_in_turns_so_that_a_short_one_does_not_wait_for_a_long_one(
    start_engine: StartEngine,
) -> None:
    backend = ToyBackend(slots=4)
    async with start_engine(backend, prefill_chunk=10, prefix_tokens=0) as asker:
        backend.ready.clear()
        long, short = asker.submit([3, *[5] * 200], 1), asker.submit([4, 6], 1)
        backend.ready.set()
        await asyncio.gather(answer_of(long), answer_of(short))
        assert short.ended < long.ended


async def test_running_sequences_go_on_while_a_long_prompt_is_worked_on(start_engine: StartEngine) -> None:
    backend = ToyBackend(slots=4)
    async with start_engine(backend, prefill_chunk=10, prefix_tokens=0) as asker:
        running = asker.submit([3], 200)
        await anext(running)
        before = len(backend.steps)
        await asker.ask([4, *[5] * 99], 1)
        assert len(backend.steps) - before >= 9
        running.cancel()


async def test_a_step_costs_as_many_rows_as_there_are_sequences(start_engine: StartEngine) -> None:
    backend = ToyBackend(slots=4)
    backend.gate = Semaphore(0)
    async with start_engine(backend, prefix_tokens=0) as asker:
        asked = [asker.submit([3 + i], n) for i, n in enumerate((2, 4, 9, 3))]
        backend.gate.release(1000)
        await asyncio.gather(*(answer_of(one) for one in asked))
        assert sum(backend.steps) == sum(n - 1 for n in (2, 4, 9, 3))
