"""What the two text routes read, and what they refuse: by field, with what came and what was expected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_engine import CONTEXT, ScriptedEngine, make_reader

from models.errors import InputError
from services.core.call import Call
from services.core.errors import ApiError
from services.generation.processors import ProcessorRegistry
from services.generation.request import GenerationRequest
from services.openai.answering import Answering, is_long, read_request
from services.openai.chat import Chat
from services.openai.completions import Completions

TALK = [{"role": "user", "content": "hello"}]


class Named:
    """What an answer says of its model."""

    name, digest = "tiny", "sha256:0"


def asked(route: Any, request: dict[str, Any], **reader: Any) -> list[GenerationRequest]:
    """The sequences a request becomes."""

    async def submit() -> list[GenerationRequest]:
        read_by = make_reader(**reader)
        engine = ScriptedEngine(read_by.tokenizer)
        reading = read_request(route, request, read_by, engine.context)
        with Answering(reading, Call("/test", "none", "id"), Named(), engine, read_by.tokenizer):  # type: ignore[arg-type]
            return engine.requests

    return asyncio.run(submit())


def completion(**fields: Any) -> GenerationRequest:
    return asked(Completions, {"prompt": "ab", **fields})[0]


def chat(**fields: Any) -> GenerationRequest:
    return asked(Chat, {"messages": TALK, **fields})[0]


def refusal(route: Any, request: dict[str, Any], **reader: Any) -> ApiError:
    with pytest.raises((InputError, ApiError)) as caught:
        asked(route, request, **reader)
    return ApiError.of(caught.value)


# --- prompts


def test_a_prompt_is_text_or_tokens_or_a_list_of_either() -> None:
    one = asked(Completions, {"prompt": "ab"})[0].prompt
    for same in (list(one), ["ab"], [list(one)]):
        assert [r.prompt for r in asked(Completions, {"prompt": same})] == [one]
    mixed = asked(Completions, {"prompt": ["ab", [7], "b"], "n": 2})
    assert [r.prompt for r in mixed] == [one, one, (7,), (7,), one[1:], one[1:]]


def test_plain_text_begins_with_the_beginning_token_where_the_model_wants_it_and_tokens_are_taken_as_they_are() -> None:
    assert asked(Completions, {"prompt": "ab"}, add_bos=True)[0].prompt[0] == make_reader().spec.bos_token
    assert asked(Completions, {"prompt": [7, 8]}, add_bos=True)[0].prompt == (7, 8)


def test_a_chat_is_written_by_the_models_template() -> None:
    reader = make_reader()
    talk = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    prompt = asked(Chat, {"messages": talk})[0].prompt
    assert reader.tokenizer.decode(prompt, special=True) == "<s>[system] be brief\n[user] hi\n[assistant] "


def test_messages_as_the_official_client_returns_them_are_taken_back() -> None:
    nothing = dict.fromkeys(("refusal", "audio", "tool_calls", "function_call", "annotations"))
    said = {"role": "assistant", "content": "hello", **nothing}
    assert asked(Chat, {"messages": [*TALK, said, *TALK]})


@pytest.mark.parametrize(
    ("prompt", "code", "field"),
    [
        ("", "empty_prompt", "prompt"),
        ([], "empty_prompt", "prompt"),
        (["a", ""], "empty_prompt", "prompt[1]"),
        ([[]], "empty_prompt", "prompt[0]"),
        (None, "invalid_request", "prompt"),
        (7, "invalid_request", "prompt"),
        ({"a": 1}, "invalid_request", "prompt"),
        ([1, "a"], "invalid_request", "prompt[1]"),
        ([[1, True]], "invalid_request", "prompt[0][1]"),
        ([1, -1], "invalid_request", "prompt[1]"),
        ([1, 10**9], "invalid_request", "prompt[1]"),
        (["a", None], "invalid_request", "prompt[1]"),
        (["a"] * 257, "invalid_request", "prompt"),
        ("half \ud800", "invalid_request", "prompt"),
    ],
)
def test_a_prompt_that_is_none_is_refused_by_place(prompt: Any, code: str, field: str) -> None:
    error = refusal(Completions, {"prompt": prompt})
    assert (error.code, error.field) == (code, field)


@pytest.mark.parametrize(
    ("messages", "code", "field"),
    [
        (None, "invalid_request", "messages"),
        ("hi", "invalid_request", "messages"),
        ([], "empty_prompt", "messages"),
        (["hi"], "invalid_request", "messages[0]"),
        ([{"content": "hi"}], "invalid_request", "messages[0].role"),
        ([{"role": "king", "content": "hi"}], "invalid_request", "messages[0].role"),
        ([*TALK, {"role": "user"}], "invalid_request", "messages[1].content"),
        ([{"role": "user", "content": 7}], "invalid_request", "messages[0].content"),
        ([{"role": "user", "content": ["hi"]}], "invalid_request", "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "invalid_request", "messages[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}],
            "invalid_request",
            "messages[0].content[1]",
        ),
        ([{"role": "tool", "content": "4", "tool_call_id": "a"}], "not_supported", "messages[0]"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "not_supported", "messages[0]"),
        ([{"role": "user", "content": "hi", "mood": "glad"}], "invalid_request", "messages[0].mood"),
    ],
)
def test_a_message_that_cannot_be_read_is_refused_by_place(messages: Any, code: str, field: str) -> None:
    error = refusal(Chat, {"messages": messages})
    assert (error.code, error.field) == (code, field)


def test_a_model_without_template_refuses_chats_and_names_the_other_route() -> None:
    error = refusal(Chat, {"messages": TALK}, chat=False)
    assert error.code == "not_supported"
    assert "/v1/completions" in str(error.hint)


# --- options


def test_what_is_not_sent_has_openais_defaults() -> None:
    request = completion()
    assert (request.max_tokens, request.stop, request.logprobs, request.grammar) == (16, (), None, None)
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (1.0, 1.0, 0, 0.0)
    assert (sampling.seed, sampling.logit_bias, sampling.repetition_penalty) == (None, {}, 1.0)
    assert chat().max_tokens == CONTEXT - len(chat().prompt)


def test_null_is_the_same_as_nothing() -> None:
    names = ("max_tokens", "temperature", "stop", "seed", "logprobs", "logit_bias", "response_format", "stream_options")
    assert completion(**dict.fromkeys(names)) == completion()


def test_every_option_reaches_the_engine() -> None:
    request = completion(
        max_tokens=3,
        stop="\n",
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=1,
        logit_bias={"7": -100},
        seed=9,
        logprobs=2,
        ignore_eos=True,
        user="someone",
    )
    assert (request.max_tokens, request.stop, request.logprobs, request.ignore_end) == (3, ("\n",), 2, True)
    sampling = request.sampling
    choice = (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p, sampling.seed)
    assert choice == (0.5, 0.9, 5, 0.1, 9)
    penalties = (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty)
    assert penalties == (1.1, -1.0, 1.0)
    assert sampling.logit_bias == {7: -100.0}
    assert completion(top_k=-1).sampling.top_k == 0


def test_prompts_are_scored_only_where_they_come_back() -> None:
    assert completion(logprobs=1).prompt_logprobs is None
    request = completion(logprobs=1, echo=True, max_tokens=0)
    assert (request.prompt_logprobs, request.max_tokens) == (1, 0)


def test_a_chats_log_probabilities_are_a_flag_and_a_number() -> None:
    assert chat().logprobs is None
    assert chat(logprobs=True).logprobs == 0
    assert chat(logprobs=True, top_logprobs=4).logprobs == 4
    assert chat(max_completion_tokens=4).max_tokens == chat(max_tokens=4).max_tokens == 4


def test_choices_of_one_request_have_seeds_of_their_own() -> None:
    assert [r.sampling.seed for r in asked(Completions, {"prompt": ["a", "b"], "n": 2, "seed": 5})] == [5, 6, 5, 6]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1), ("temperature", 2.1), ("temperature", "hot"), ("temperature", True),
        ("temperature", float("nan")), ("top_p", 0), ("top_p", 1.5), ("top_k", -2), ("top_k", 1.5), ("min_p", 2),
        ("repetition_penalty", 0), ("presence_penalty", 3), ("frequency_penalty", -3), ("max_tokens", -1),
        ("max_tokens", 1.5), ("max_tokens", "3"), ("n", 0), ("n", 129), ("n", True), ("seed", 1.5), ("seed", 2**63),
        ("stop", 7), ("stop", ["a"] * 17), ("logprobs", 21), ("logprobs", -1), ("echo", "yes"), ("stream", 1),
        ("logit_bias", [1]), ("logit_bias", {"a": 1}), ("logit_bias", {"999999": 1}), ("ignore_eos", 0),
        ("stream_options", {"include_usage": True}), ("stream_options", 3), ("return_token_ids", "x"),
    ],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_with_what_was_expected(field: str, value: Any) -> None:
    error = refusal(Completions, {"prompt": "a", field: value})
    assert (error.code, error.field) == ("invalid_request", field)
    assert "expected" in error.message
    assert error.status.http == 422


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": ["a", 7]}, "stop[1]"),
        ({"logit_bias": {"7": 101}}, "logit_bias.7"),
        ({"stream": True, "stream_options": {"colour": "red"}}, "stream_options.colour"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": ["a"] * 3, "n": 100}, "n"),
        ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias"),
        ({"x" * 100: 1}, "x" * 60),
    ],
)
def test_the_exact_place_is_named(sent: dict[str, Any], field: str) -> None:
    error = refusal(Completions, {"prompt": "a", **sent})
    assert (error.code, error.field) == ("invalid_request", field)


def test_an_unknown_field_is_refused_by_name_and_the_known_ones_are_told() -> None:
    error = refusal(Chat, {"messages": TALK, "temprature": 0})
    assert (error.code, error.field) == ("invalid_request", "temprature")
    assert "temperature" in str(error.hint)
    assert refusal(Completions, {"prompt": "a", "messages": TALK}).field == "messages"
    assert refusal(Chat, {"messages": TALK, "prompt": "a"}).field == "prompt"


@pytest.mark.parametrize("sent", [{"top_logprobs": 2}, {"logprobs": 3}, {"max_tokens": 3, "max_completion_tokens": 4}])
def test_chat_options_that_contradict_each_other_are_refused(sent: dict[str, Any]) -> None:
    assert refusal(Chat, {"messages": TALK, **sent}).code == "invalid_request"


@pytest.mark.parametrize("sent", [{"tools": [{}]}, {"tool_choice": "auto"}, {"functions": [{}]}, {"function_call": {}}])
def test_tools_are_refused_in_words(sent: dict[str, Any]) -> None:
    error = refusal(Chat, {"messages": TALK, **sent})
    assert (error.code, error.field) == ("not_supported", next(iter(sent)))
    assert chat(tools=[], tool_choice="none")


@pytest.mark.parametrize(
    ("request_", "long"),
    [
        ({"prompt": "a" * 8000}, False),
        ({"prompt": ["a" * 5000, "b" * 5000]}, True),
        ({"prompt": [[1] * 5000]}, False),
        ({"prompt": [1] * 10_000}, True),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a" * 9000}]}]}, True),
        ({"messages": TALK}, False),
        ({"messages": TALK, "response_format": {"type": "json_object"}}, True),
        ({"prompt": 7, "messages": {"a": "b"}}, False),
    ],
)
def test_what_takes_long_to_read_is_known_before(request_: dict[str, Any], long: bool) -> None:
    assert is_long(request_) is long


# --- the context


def test_a_prompt_beyond_the_context_is_refused_with_the_sizes() -> None:
    error = refusal(Completions, {"prompt": "a" * CONTEXT})
    assert (error.code, error.field, error.status.http) == ("context_length_exceeded", "prompt", 400)
    assert f"maximum context length is {CONTEXT} tokens" in error.message
    assert refusal(Chat, {"messages": [{"role": "user", "content": "a" * CONTEXT}]}).field == "messages"


def test_an_answer_beyond_the_context_is_refused_with_what_would_fit() -> None:
    error = refusal(Completions, {"prompt": "a" * 60, "max_tokens": 5})
    assert (error.code, error.field) == ("context_length_exceeded", "max_tokens")
    assert "65 tokens (60 in the prompt, 5 for the answer)" in error.message
    assert "at most 4 tokens" in str(error.hint)
    assert completion(prompt="a" * 60, max_tokens=4).max_tokens == 4
    assert completion(prompt="a" * 60).max_tokens == 4  # the default gives way


def test_a_whole_context_may_be_scored() -> None:
    assert completion(prompt="a" * CONTEXT, max_tokens=0, echo=True, logprobs=0).max_tokens == 0


# --- fields of registered logits processors


def test_a_registered_field_becomes_a_processor_of_every_sequence() -> None:
    registry, made = ProcessorRegistry(), []

    class Marked:
        def __call__(self, prompt: Any, generated: Any, logits: Any) -> None: ...

    def factory(argument: Any, spec: Any, tokenizer: Any) -> Marked:
        made.append(argument)
        return Marked()

    registry.register("watermark", factory)
    requests = asked(Completions, {"prompt": "a", "n": 2, "watermark": {"key": 7}}, registry=registry)
    assert made == [{"key": 7}] * 2
    assert requests[0].processors[0] is not requests[1].processors[0]
    assert asked(Completions, {"prompt": "a"}, registry=registry)[0].processors == ()


def test_a_field_nobody_registered_is_unknown() -> None:
    assert refusal(Completions, {"prompt": "a", "watermark": {}}).field == "watermark"
