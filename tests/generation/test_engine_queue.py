"""The engine over a network without arithmetic: right answers whoever runs beside, limits, order, leaving early."""

from __future__ import annotations

import asyncio
import gc
import random
from contextlib import aclosing
from threading import Semaphore

import pytest
from engine_tools import StartEngine, answer_of
from live_server import until
from toy_backend import ToyBackend, toy_answer

from services.core.errors import ApiError


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, 320) for _ in range(draw.randrange(1, 40))] for _ in range(count)]


async def settle(seconds: float = 5.0) -> None:
    """Let callbacks run that are on their way."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("chunk", [2, 3, 7, 64])
async def test_answers_are_right_for_every_chunk_size_and_company(start_engine: StartEngine, chunk: int) -> None:
    async with start_engine(prefill_chunk=chunk, prefix_tokens=64) as asker:
        lengths = [1 + i % 13 for i in range(40)]
        asked = prompts(40)
        answers = await asyncio.gather(*(asker.ask(p, n) for p, n in zip(asked, lengths, strict=True)))
        assert [a.tokens for a in answers] == [toy_answer(p, n) for p, n in zip(asked, lengths, strict=True)]
        assert max(asker.backend.steps) > 1


async def test_usage_finish_reason_and_times_are_told(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        answer = await asker.ask([5, 6, 7, 8], 6)
        generation = answer.generation
        assert (generation.usage.prompt_tokens, generation.usage.generated_tokens) == (4, 6)
        assert answer.reason == generation.finish_reason == "length"
        assert generation.submitted <= generation.began <= generation.ended
        assert generation.batch_rows == 1
        await settle()
        assert (asker.tally.prompt_tokens, asker.tally.tokens) == (4, 6)
        assert (len(asker.tally.firsts), len(asker.tally.intervals)) == (1, 5)
        assert asker.tally.outcomes == ["length"]
        last = asker.tally.loads[-1]
        assert (last.waiting, last.running, last.kv_reserved, last.slots) == (0, 0, 0, 8)


async def test_an_answer_of_no_tokens_is_over_after_its_prompt(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        answer = await asker.ask([5, 6, 7], 0)
        assert (answer.text, answer.tokens, answer.reason) == ("", [], "length")


async def test_two_hundred_sequences_with_random_cancels_leak_nothing_and_mix_nothing(
    start_engine: StartEngine,
) -> None:
    draw = random.Random(1)
    async with start_engine(max_queue=300, kv_tokens=300, prefix_tokens=200, prefill_chunk=5) as asker:

        async def one(prompt: list[int], read: int | None) -> None:
            generation = asker.submit(prompt, 20, interactive=draw.random() < 0.7)
            got: list[int] = []
            async with aclosing(generation):
                async for piece in generation:
                    got += piece.tokens
                    if read is not None and len(got) >= read:
                        break
            expected = toy_answer(prompt, 20)
            assert got == (expected if read is None else expected[: len(got)])

        plans = [(p, draw.choice([None, None, 0, 1, 3, 10])) for p in prompts(200, seed=2)]
        await asyncio.gather(*(one(prompt, read) for prompt, read in plans))
        await until(lambda: asker.engine.load.running == 0 and asker.engine.load.waiting == 0)
        assert asker.engine.load.kv_reserved == 0
        assert len(asker.tally.outcomes) == 200
        assert not asker.engine._open
        assert max(load.running for load in asker.tally.loads) == 8
        assert all(load.kv_reserved <= 300 and load.prefix_held <= 200 for load in asker.tally.loads)
        answer = await asker.ask([9, 8, 7], 12)
        assert answer.tokens == toy_answer([9, 8, 7], 12)


async def test_cancelling_frees_the_slot_within_one_step(start_engine: StartEngine) -> None:
    backend = ToyBackend(slots=1)
    backend.gate = Semaphore(0)
    async with start_engine(backend) as asker:
        first = asker.submit([3, 4], 100)
        assert (await anext(first)).tokens == tuple(toy_answer([3, 4], 1))
        second = asker.submit([5, 6], 1)
        first.cancel()
        backend.gate.release()  # the step that was running when it was cancelled
        assert (await answer_of(second)).tokens == toy_answer([5, 6], 1)
        assert backend.steps == [1]
        assert [piece async for piece in first] == []
        backend.gate = None
    assert asker.tally.outcomes == ["cancelled", "length"]


@pytest.mark.parametrize("how", ["task", "dropped", "closed"])
async def test_a_consumer_that_goes_away_frees_its_slot(start_engine: StartEngine, how: str) -> None:
    backend = ToyBackend(slots=1)
    async with start_engine(backend) as asker:
        backend.gate = Semaphore(0)
        generation = asker.submit([3, 4], 200)
        await anext(generation)
        if how == "task":
            reading = asyncio.create_task(answer_of(generation))
            await settle()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            del reading
        elif how == "closed":
            await generation.aclose()
        del generation
        gc.collect()
        backend.gate.release(1)
        await until(lambda: asker.tally.outcomes == ["cancelled"])
        backend.gate.release(1000)
        answer = await asker.ask([5, 6], 3)
        assert answer.tokens == toy_answer([5, 6], 3)
        assert len(backend.steps) < 10


async def test_a_full_queue_refuses_at_once_with_the_time_to_come_back(start_engine: StartEngine) -> None:
    backend = ToyBackend(slots=1)
    backend.gate = Semaphore(0)
    async with start_engine(backend, max_queue=2) as asker:
        running = [asker.submit([3 + i], 5) for i in range(3)]
        with pytest.raises(ApiError) as refused:
            asker.submit([9], 5)
        assert refused.value.code == "queue_full"
        assert refused.value.retry_after_ms is not None
        assert refused.value.retry_after_ms >= 50
        running[2].cancel()
        backend.gate.release(1000)
        again = asker.submit([9], 5)
        answers = await asyncio.gather(*(answer_of(g) for g in (*running[:2], again)))
        assert [a.tokens for a in answers] == [toy_answer([t], 5) for t in (3, 4, 9)]


async def test_what_does_not_fit_the_context_is_refused(start_engine: StartEngine) -> None:
    async with start_engine(ToyBackend(capacity=64), kv_tokens=40) as asker:
        assert asker.engine.context == 40
        with pytest.raises(ApiError) as refused:
            asker.submit([3] * 30, 11)
        assert refused.value.code == "context_length_exceeded"
        assert (await asker.ask([3] * 30, 10)).reason == "length"


async def test_a_deadline_ends_waiting_and_running_sequences(start_engine: StartEngine) -> None:
    backend = ToyBackend(slots=1)
    backend.gate = Semaphore(0)
    async with start_engine(backend) as asker:
        running = asker.submit([3, 4], 100, deadline_s=0.05)
        waiting = asker.submit([5, 6], 100, deadline_s=0.05)
        await anext(running)
        await asyncio.sleep(0.06)
        backend.gate.release(1)
        for generation in (running, waiting):
            with pytest.raises(ApiError) as late:
                await answer_of(generation)
            assert late.value.code == "deadline_exceeded"
        backend.gate.release(1000)
        assert (await asker.ask([7], 3)).tokens == toy_answer([7], 3)


async def test_closing_finishes_accepted_work_and_refuses_new(start_engine: StartEngine) -> None:
    backend = ToyBackend(slots=2)
    backend.gate = Semaphore(0)
    async with start_engine(backend) as asker:
        generations = [asker.submit([3 + i], 6) for i in range(5)]
        closing = asyncio.create_task(asker.engine.close())
        await settle()
        with pytest.raises(ApiError) as refused:
            asker.submit([9], 1)
        assert refused.value.code == "shutting_down"
        backend.gate.release(1000)
        await closing
        assert backend.closed
        answers = await asyncio.gather(*(answer_of(g) for g in generations))
        assert [a.tokens for a in answers] == [toy_answer([3 + i], 6) for i in range(5)]
