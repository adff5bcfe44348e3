"""The official `openai` package, unchanged, against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from live_server import LiveServer
from text_server import CONTEXT, FP32, INT8

FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}
TALK = [{"role": "user", "content": "Say something."}]


@pytest.fixture(scope="module")
def client(text: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{text.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {FP32, INT8}
    model = client.models.retrieve(f"{FP32}:1")
    assert (model.id, model.object, model.owned_by) == (FP32, "model", "pressroom")


def test_a_completion(client: openai.OpenAI) -> None:
    got = client.completions.create(model=FP32, prompt="The capital", max_tokens=8, temperature=0, seed=3)
    assert got.choices[0].finish_reason in ("stop", "length")
    assert got.usage is not None
    assert got.usage.completion_tokens <= 8
    assert got.system_fingerprint == client.models.retrieve(FP32).digest  # type: ignore[attr-defined]
    assert got.pressroom["version"] == "1"  # type: ignore[attr-defined]
    streamed = client.completions.create(
        model=FP32,
        prompt="The capital",
        max_tokens=8,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(streamed)
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == got.choices[0].text
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == got.usage.completion_tokens


def test_a_chat(client: openai.OpenAI) -> None:
    got = client.chat.completions.create(model=FP32, messages=TALK, max_completion_tokens=8, temperature=0)
    message = got.choices[0].message
    assert message.role == "assistant"
    more = [*TALK, message, {"role": "user", "content": [{"type": "text", "text": "More."}]}]
    assert client.chat.completions.create(model=FP32, messages=more, max_tokens=4).choices
    ending = {"guided_choice": ["völlig"]}  # the helper refuses answers that were cut
    with client.chat.completions.stream(model=FP32, messages=TALK, max_tokens=20, extra_body=ending) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        assert stream.get_final_completion().choices[0].message.content == "".join(deltas) == "völlig"


def test_several_choices_with_log_probabilities(client: openai.OpenAI) -> None:
    got = client.chat.completions.create(
        model=FP32, messages=TALK, max_tokens=4, n=3, seed=1, logprobs=True, top_logprobs=2
    )
    assert [choice.index for choice in got.choices] == [0, 1, 2]
    for choice in got.choices:
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in choice.logprobs.content)
    scored = client.completions.create(model=FP32, prompt="The capital", max_tokens=0, echo=True, logprobs=1)
    assert scored.choices[0].logprobs is not None
    assert scored.choices[0].logprobs.token_logprobs is not None
    assert scored.choices[0].logprobs.token_logprobs[0] is None


def test_a_json_schema(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    got = client.chat.completions.create(
        model=FP32,
        messages=TALK,
        max_tokens=100,
        seed=1,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": {**schema, "additionalProperties": False}, "strict": True},
        },
    )
    assert isinstance(json.loads(got.choices[0].message.content or "")["ok"], bool)


def test_fields_of_other_servers_go_in_extra_body(client: openai.OpenAI) -> None:
    extra = {"guided_choice": ["red", "green"], "top_k": 5, "min_p": 0.05, "repetition_penalty": 1.1}
    got = client.completions.create(model=INT8, prompt="x", max_tokens=10, seed=1, extra_body=extra)
    assert got.choices[0].text in ("red", "green")


def test_refusals_are_the_packages_own_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as too_long:
        client.completions.create(model=FP32, prompt=[5] * CONTEXT, max_tokens=10)
    assert too_long.value.code == "context_length_exceeded"
    assert too_long.value.type == "invalid_request_error"
    assert too_long.value.param == "prompt"
    with pytest.raises(openai.UnprocessableEntityError) as hot:
        client.completions.create(model=FP32, prompt="x", temperature=9)
    assert (hot.value.code, hot.value.param) == ("invalid_request", "temperature")
    assert "temperature" in hot.value.message
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-9", messages=TALK)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.UnprocessableEntityError) as tools:
        client.chat.completions.create(model=FP32, messages=TALK, tools=[{"type": "function", "function": FUNCTION}])
    assert tools.value.code == "not_supported"


def test_a_failure_inside_a_stream_is_an_exception_too(client: openai.OpenAI) -> None:
    """The deadline passes while the answer is on its way: the text before it arrives, then the error."""
    headers = {"X-Request-Timeout-Ms": "400"}
    stream = client.completions.create(
        model=FP32, prompt="x", max_tokens=CONTEXT - 2, n=64, stream=True, extra_headers=headers,
        extra_body={"ignore_eos": True},
    )  # fmt: skip
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == "deadline_exceeded"


async def test_the_awaited_client_streams_too(text: LiveServer) -> None:
    async with openai.AsyncOpenAI(base_url=f"{text.url}/v1", api_key="none") as client:
        stream = await client.chat.completions.create(model=FP32, messages=TALK, max_tokens=6, stream=True)
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
