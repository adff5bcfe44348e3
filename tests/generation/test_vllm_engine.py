"""vLLM as the engine, without vLLM: requests in its words, its outputs in ours, and everything around them."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from engine_tools import GREEDY, Tally, answer_of
from tiny_llm import tiny_tokenizer
from vllm_tools import Script, ScriptedClient, logprobs, output

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.core.call import Call
from services.core.errors import ApiError
from services.generation.grammar import json_schema_grammar, lark_grammar, regex_grammar
from services.generation.options import EngineOptions
from services.generation.processors import ProcessorRegistry
from services.generation.request import GenerationRequest, Sampling, TokenScore
from services.generation.tokenizer import Tokenizer
from services.generation.vllm_backend import VllmEngine
from services.generation.vllm_request import EXTRA, RemoteProcessors, sampling_arguments, structured_arguments

SPEC = LanguageModelSpec(
    vocabulary=320,
    layers=2,
    kv_heads=2,
    head_dim=16,
    context_length=64,
    precision="fp32",
    bos_token=0,
    end_tokens=(1,),
    add_bos=True,
)
FOREVER = 60.0  # seconds a stand-in waits; no test waits for it


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer(tiny_tokenizer().backend_tokenizer)


class Scripted:
    """An engine over a scripted client, and requests to it in one line."""

    def __init__(self, script: Script, words: Tokenizer, **options: Any) -> None:
        self.client, self.tally = ScriptedClient(script), Tally()
        self.engine = VllmEngine(self.client, words, SPEC, EngineOptions(**options), self.tally)

    def submit(self, prompt: Sequence[int] = (5, 6, 7), *, deadline: float | None = None, **more: Any) -> Any:
        more = {"max_tokens": 8, "sampling": GREEDY} | more
        request = GenerationRequest(prompt=tuple(prompt), **more)
        return self.engine.submit(request, Call("/v1/completions", "http", "r", deadline))


def say(words: Tokenizer, text: str, reason: str | None = "stop", end: bool = True) -> list[Any]:
    """Outputs of one token each that spell a text, then its end."""
    tokens = words.encode(text) + ([1] if end else [])
    return [output([token], reason if place == len(tokens) else None) for place, token in enumerate(tokens, start=1)]


def test_every_option_of_a_request_has_its_place_in_vllms_sampling_parameters() -> None:
    sampling = Sampling(
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=-0.3,
        logit_bias={4: -100.0},
        seed=-1,
    )
    request = GenerationRequest(prompt=(3,), max_tokens=9, sampling=sampling, logprobs=2, prompt_logprobs=0)
    assert sampling_arguments(request, SPEC) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": -0.3,
        "logit_bias": {4: -100.0},
        "seed": 2**63 - 1,
        "max_tokens": 9,
        "stop_token_ids": [1],
        "ignore_eos": False,
        "logprobs": 2,
        "prompt_logprobs": 0,
        "detokenize": False,
        "extra_args": None,
    }


def test_an_answer_that_ignores_end_tokens_stops_at_none() -> None:
    found = sampling_arguments(GenerationRequest(prompt=(3,), max_tokens=9, ignore_end=True), SPEC)
    assert (found["stop_token_ids"], found["ignore_eos"]) == ([], True)


def test_grammars_become_structured_outputs() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert json.loads(structured_arguments(json_schema_grammar(schema))["json"]) == schema
    assert structured_arguments(regex_grammar("[ab]+")) == {"grammar": "start: /[ab]+/"}
    assert structured_arguments(lark_grammar('start: "a" | "b"')) == {"grammar": 'start: "a" | "b"'}


def test_a_grammar_vllm_has_no_word_for_is_refused() -> None:
    with pytest.raises(InputError, match="one JSON schema or one Lark grammar"):
        structured_arguments('{"grammars": []}')


def _favour(argument: Any, spec: LanguageModelSpec, tokenizer: Tokenizer) -> Any:
    def processor(prompt: Sequence[int], generated: Sequence[int], logits: Any) -> None:
        logits[argument] += 10 * len(prompt) + len(generated)

    return processor


def test_processors_travel_as_names_and_are_made_again(words: Tokenizer) -> None:
    registry = ProcessorRegistry()
    registry.register("favour", _favour)
    named = registry.make({"favour": 3}, SPEC, words)
    request = GenerationRequest(prompt=(5, 6), max_tokens=1, processors=named)
    travelling = sampling_arguments(request, SPEC)["extra_args"]
    assert travelling == {EXTRA: [["favour", 3]]}
    assert registry.modules == (__name__,)
    remote = RemoteProcessors(travelling[EXTRA], registry, SPEC, words)
    here = np.zeros(320, np.float32)
    named[0]((5, 6), (9,), here)
    row = torch.zeros(320)
    assert remote([5, 6], [9], row) is row
    np.testing.assert_array_equal(row.numpy(), here)
    assert row[3] == 21


def test_a_row_whose_memory_cannot_be_shared_is_replaced(words: Tokenizer) -> None:
    registry = ProcessorRegistry()
    registry.register("favour", _favour)
    row = torch.zeros(320, dtype=torch.bfloat16)
    found = RemoteProcessors([("favour", 3)], registry, SPEC, words)([5], [], row)
    assert (found.dtype, found[3].item(), row[3].item()) == (torch.bfloat16, 10.0, 0.0)


def test_a_processor_without_a_name_is_refused() -> None:
    request = GenerationRequest(prompt=(5,), max_tokens=1, processors=(lambda prompt, generated, logits: None,))
    with pytest.raises(InputError, match="registry"):
        sampling_arguments(request, SPEC)


async def test_text_comes_in_whole_characters_and_the_end_token_is_not_part_of_it(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: say(words, "né 🙂"), words)
    answer = await answer_of(scripted.submit())
    assert (answer.text, answer.reason) == ("né 🙂", "stop")
    assert answer.tokens == words.encode("né 🙂")
    assert all("\ufffd" not in piece.text for piece in answer.pieces)
    assert answer.generation.usage.generated_tokens == len(answer.tokens)
    assert scripted.tally.outcomes == ["stop"]
    assert len(scripted.tally.firsts) == 1


async def test_a_stop_string_ends_the_text_and_aborts(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: [*say(words, "one two three", None, end=False), FOREVER], words)
    answer = await answer_of(scripted.submit(stop=("o t",)))
    assert (answer.text, answer.reason) == ("one tw", "stop")
    assert scripted.client.aborted == 1


async def test_length_is_the_reason_when_tokens_run_out(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: say(words, "abc", "length", end=False), words)
    answer = await answer_of(scripted.submit())
    assert (answer.text, answer.reason) == ("abc", "length")


async def test_scores_are_the_tokens_own_and_the_likeliest(words: Tokenizer) -> None:
    entries = [None, logprobs(t6=-1.0, t9=-0.5), logprobs(t7=-0.25)]
    said = [
        output([8], prompt_logprobs=entries, logprobs=[logprobs(t8=-2.0, t9=-0.5, t4=-0.5)], num_cached_tokens=1),
        output([1], "stop", logprobs=[logprobs(t1=-0.1)]),
    ]
    scripted = Scripted(lambda prompt: said, words)
    answer = await answer_of(scripted.submit(logprobs=2, prompt_logprobs=1))
    assert [score for piece in answer.pieces for score in piece.scores] == [
        TokenScore(8, -2.0, ((4, -0.5), (9, -0.5))),
    ]
    assert answer.generation.prompt_scores == [TokenScore(6, -1.0, ((9, -0.5),)), TokenScore(7, -0.25, ((7, -0.25),))]
    assert answer.generation.usage.cached_tokens == 1
    assert scripted.tally.prefixes == [(3, 1)]


async def test_a_prompt_is_scored_without_an_answer(words: Tokenizer) -> None:
    said = [output([8], "length", prompt_logprobs=[None, logprobs(t6=-1.0), logprobs(t7=-2.0)])]
    scripted = Scripted(lambda prompt: said, words)
    answer = await answer_of(scripted.submit(max_tokens=0, prompt_logprobs=0))
    assert (answer.text, answer.tokens, answer.reason) == ("", [], "length")
    assert [score.logprob for score in answer.generation.prompt_scores] == [-1.0, -2.0]
    assert scripted.client.asked[0][1]["max_tokens"] == 1


async def test_a_reader_who_leaves_aborts(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: [*say(words, "ab", None, end=False), FOREVER], words)
    leaving, forgetting = scripted.submit(), scripted.submit()
    await anext(leaving)
    await anext(forgetting)
    leaving.cancel()
    del forgetting
    gc.collect()
    await scripted.engine.close()
    assert scripted.client.aborted == 2
    assert scripted.tally.outcomes == ["cancelled", "cancelled"]
    assert scripted.client.ended


async def test_one_who_leaves_before_the_first_turn_is_counted_too(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: [FOREVER], words)
    scripted.submit().cancel()
    await scripted.engine.close()
    assert (scripted.tally.outcomes, scripted.client.asked) == (["cancelled"], [])


async def test_a_deadline_ends_the_answer(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: [FOREVER], words)
    with pytest.raises(ApiError) as refusal:
        await answer_of(scripted.submit(deadline=0.0))
    assert refusal.value.code == "deadline_exceeded"
    await scripted.engine.close()
    assert scripted.client.aborted == 1


async def test_what_vllm_refuses_is_the_callers_and_what_breaks_is_ours(words: Tokenizer) -> None:
    faults = {5: InputError("not_supported", "no such grammar"), 6: RuntimeError("/secret/path")}
    scripted = Scripted(lambda prompt: [faults[prompt[0]]], words, max_failures=1)
    with pytest.raises(ApiError, match="no such grammar"):
        await answer_of(scripted.submit([5]))
    with pytest.raises(ApiError, match="failed on this request") as refusal:
        await answer_of(scripted.submit([6]))
    assert (refusal.value.code, "secret" in refusal.value.message) == ("inference_failed", False)
    assert scripted.tally.outcomes == ["not_supported", "inference_failed"]
    assert scripted.tally.circuits == [True]
    with pytest.raises(ApiError) as paused:
        scripted.submit([5])
    assert paused.value.code == "circuit_open"


async def test_an_aborted_answer_is_a_failure(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: [output([5], "abort")], words)
    with pytest.raises(ApiError, match="failed on this request"):
        await answer_of(scripted.submit())


async def test_limits_are_our_engines(words: Tokenizer) -> None:
    scripted = Scripted(lambda prompt: [FOREVER], words, slots=1, max_queue=1)
    assert scripted.engine.context == 64
    with pytest.raises(ApiError) as too_long:
        scripted.submit([5] * 60, max_tokens=5)
    kept = [scripted.submit(), scripted.submit()]
    with pytest.raises(ApiError) as full:
        scripted.submit()
    assert (too_long.value.code, full.value.code, full.value.retry_after_ms) == (
        "context_length_exceeded",
        "queue_full",
        1000,
    )
    load = scripted.engine.load
    assert (load.waiting, load.running, load.kv_reserved, load.kv_tokens) == (2, 0, 22, 1000)
    for one in kept:
        one.cancel()
    await scripted.engine.close()
    with pytest.raises(ApiError) as closed:
        scripted.submit()
    assert closed.value.code == "shutting_down"


async def test_answers_do_not_mix(words: Tokenizer) -> None:
    def script(prompt: tuple[int, ...]) -> list[Any]:
        return say(words, f"answer to {prompt[0]}")

    scripted = Scripted(script, words)
    answers = await asyncio.gather(*(answer_of(scripted.submit([place + 2])) for place in range(20)))
    assert [answer.text for answer in answers] == [f"answer to {place + 2}" for place in range(20)]
