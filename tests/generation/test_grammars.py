"""Answers that must follow a grammar, from a network that knows nothing of it."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from engine_tools import StartEngine
from toy_backend import toy_answer

from models.errors import InputError
from services.core.errors import ApiError
from services.generation.grammar import json_object_grammar, json_schema_grammar, lark_grammar, regex_grammar
from services.generation.request import Sampling

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["cat", "dog"]},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}


async def test_every_answer_is_json_of_the_schema_and_ends_by_itself(start_engine: StartEngine) -> None:
    grammar = json_schema_grammar(SCHEMA)
    async with start_engine() as asker:
        hot = [Sampling(temperature=1.0, seed=seed) for seed in range(6)]
        answers = await asyncio.gather(
            *(asker.ask([5, 6], 200, grammar=grammar, sampling=one) for one in hot), asker.ask([7], 5)
        )
        for answer in answers[:-1]:
            found = json.loads(answer.text)
            assert set(found) == {"name", "age", "kind"}
            assert found["kind"] in ("cat", "dog")
            assert 0 <= found["age"] <= 99
            assert answer.reason == "stop"
        assert answers[-1].tokens == toy_answer([7], 5)


async def test_regular_expressions_and_context_free_grammars_are_followed(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        digits = await asker.ask([5], 50, grammar=regex_grammar(r"[0-9]{3}-[a-c]{2}"))
        assert re.fullmatch(r"[0-9]{3}-[a-c]{2}", digits.text)
        assert digits.reason == "stop"
        sums = await asker.ask([5], 50, grammar=lark_grammar('start: NUMBER " + " NUMBER "="\nNUMBER: /[1-9]/'))
        assert re.fullmatch(r"[1-9] \+ [1-9]=", sums.text)


async def test_an_answer_may_be_cut_by_its_length(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        answer = await asker.ask([5], 3, grammar=json_object_grammar())
        assert answer.reason == "length"
        assert len(answer.tokens) == 3


def test_grammars_nobody_can_follow_are_refused_in_words() -> None:
    for make in (
        lambda: json_schema_grammar({"type": "nonsense"}),
        lambda: regex_grammar("(["),
        lambda: lark_grammar("start: (("),
    ):
        with pytest.raises(InputError, match="grammar"):
            make()


async def test_a_grammar_that_does_not_compile_fails_its_sequence_alone(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        bad = asker.ask([5], 3, grammar="not a grammar at all ((")
        outcomes = await asyncio.gather(bad, asker.ask([6], 3), return_exceptions=True)
        assert isinstance(outcomes[0], ApiError)
        assert outcomes[0].code == "invalid_request"
        assert outcomes[1].tokens == toy_answer([6], 3)


async def test_closing_waits_for_a_grammar_that_is_being_read(start_engine: StartEngine) -> None:
    async with start_engine() as asker:
        generation = asker.submit([5], 50, grammar=regex_grammar("[ab]{4}"))
        await asker.engine.close()
        pieces = [piece async for piece in generation]
        assert re.fullmatch("[ab]{4}", "".join(piece.text for piece in pieces))
