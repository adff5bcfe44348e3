"""What fails for one sequence fails for it alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from engine_tools import StartEngine
from toy_backend import ToyBackend, toy_answer

from models.errors import InputError
from services.core.errors import ApiError
from services.generation.request import Logits, Sampling


class RaisesAfter:
    """A processor that goes wrong at the n-th token."""

    def __init__(self, count: int, fault: Exception) -> None:
        self.count, self.fault = count, fault

    def __call__(self, prompt: Sequence[int], generated: Sequence[int], logits: Logits) -> None:
        if len(generated) == self.count:
            raise self.fault


def rules_out_everything(prompt: Sequence[int], generated: Sequence[int], logits: Logits) -> None:
    logits[:] = -float("inf")


async def test_a_failing_processor_ends_only_its_own_sequence(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        outcomes = await asyncio.gather(
            *(asker.ask([10 + i, 4], 8) for i in range(4)),
            asker.ask([20, 4], 8, processors=(RaisesAfter(3, KeyError("secret")),)),
            asker.ask([21, 4], 8, processors=(RaisesAfter(2, InputError("invalid_request", "not so")),)),
            asker.ask([22, 4], 8, processors=(rules_out_everything,)),
            return_exceptions=True,
        )
        assert [a.tokens for a in outcomes[:4]] == [toy_answer([10 + i, 4], 8) for i in range(4)]
        codes = [fault.code for fault in outcomes[4:]]
        assert codes == ["internal", "invalid_request", "value_out_of_range"]
        assert "secret" not in str(outcomes[4])
        assert not asker.engine.circuit.is_open
        assert (await asker.ask([5], 3)).tokens == toy_answer([5], 3)


async def test_a_step_that_fails_is_repeated_by_halves_and_only_the_guilty_row_fails(
    start_engine: StartEngine,
) -> None:
    backend = ToyBackend(slots=8)

    def poison(rows: list[list[int]]) -> None:
        if any(66 in row[:3] and len(row) > 6 for row in rows):
            raise RuntimeError("broken row")

    backend.before_step = poison
    async with start_engine(backend) as asker:
        asked = [[10 + i, 5, 6] for i in range(7)]
        asked.insert(3, [66, 5, 6])
        outcomes = await asyncio.gather(*(asker.ask(p, 9) for p in asked), return_exceptions=True)
        guilty = outcomes.pop(3)
        assert isinstance(guilty, ApiError)
        assert guilty.code == "inference_failed"
        asked.pop(3)
        assert [a.tokens for a in outcomes] == [toy_answer(p, 9) for p in asked]


async def test_a_prompt_the_model_fails_on_fails_alone(start_engine: StartEngine) -> None:
    backend = ToyBackend()

    def poison(rows: list[list[int]]) -> None:
        if rows[0][0] == 66:
            raise RuntimeError("broken prompt")

    backend.before_step = poison
    async with start_engine(backend) as asker:
        outcomes = await asyncio.gather(asker.ask([5], 4), asker.ask([66], 4), return_exceptions=True)
        assert outcomes[0].tokens == toy_answer([5], 4)
        assert outcomes[1].code == "inference_failed"


async def test_a_model_that_fails_again_and_again_is_given_a_pause(start_engine: StartEngine) -> None:
    backend = ToyBackend()
    broken = True

    def fail(rows: list[list[int]]) -> None:
        if broken:
            raise RuntimeError("all is lost")

    backend.before_step = fail
    async with start_engine(backend, max_failures=3, cooldown_s=0.05) as asker:
        for token in range(3):
            with pytest.raises(ApiError) as failed:
                await asker.ask([5 + token], 4)
            assert failed.value.code == "inference_failed"
        with pytest.raises(ApiError) as refused:
            asker.submit([9], 4)
        assert refused.value.code == "circuit_open"
        broken = False
        await asyncio.sleep(0.06)
        assert (await asker.ask([9], 4)).tokens == toy_answer([9], 4)
        assert asker.tally.circuits == [True, False]


async def test_logits_that_are_not_numbers_end_the_sequence(start_engine: StartEngine) -> None:
    backend = ToyBackend()
    honest = backend.decode

    def decode(first, tokens, lengths):  # type: ignore[no-untyped-def]
        logits = honest(first, tokens, lengths)
        logits[tokens == toy_answer([7], 1)[0]] = float("nan")
        return logits

    backend.decode = decode  # type: ignore[method-assign]
    async with start_engine(backend) as asker:
        hot = Sampling(temperature=1.0, seed=1, logit_bias={toy_answer([7], 1)[0]: 100.0})
        outcomes = await asyncio.gather(
            asker.ask([7], 4), asker.ask([7], 4, sampling=hot), asker.ask([8], 4), return_exceptions=True
        )
        assert [fault.code for fault in outcomes[:2]] == ["inference_failed", "inference_failed"]
        assert outcomes[2].tokens == toy_answer([8], 4)


async def test_penalties_that_overflow_are_the_requests_fault(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        absurd = Sampling(temperature=1.0, repetition_penalty=1e-44, seed=1)
        with pytest.raises(ApiError) as refused:
            await asker.ask([5, 6, 7, 8, 9, 10], 4, sampling=absurd)
        assert refused.value.code == "value_out_of_range"
