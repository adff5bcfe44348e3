"""complete and chat: whole answers over both transports, streams over HTTP, refusals before and after they began."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pressroom_client import (
    APIConnectionError,
    AsyncClient,
    Client,
    ContextLengthExceeded,
    EmptyPrompt,
    InferenceFailed,
    TextPiece,
    TextUsage,
    TokenScore,
    UnexpectedAnswer,
    UsageError,
)
from tiny_service import DIGEST, Behaviour, RefusalError

HTTP_ONLY = pytest.mark.parametrize("transport", ["http"])
GRPC_ONLY = pytest.mark.parametrize("transport", ["grpc"])
TALK = [{"role": "system", "content": "Shout."}, {"role": "user", "content": "so be it"}]


@pytest.fixture
async def aclient(url: str, server: Behaviour, instant: Any):
    async with AsyncClient(url, clock=instant.clock) as client:
        yield client


def body(server: Behaviour) -> dict[str, Any]:
    sent = server.seen[-1].body
    return json.loads(sent if isinstance(sent, bytes) else sent.raw_input_contents[0][4:])


def test_a_completion_says_what_answered_and_what_it_took(client: Client) -> None:
    result = client.complete("be it so", model="parrot")
    assert (result.text, result.finish_reason) == ("BE IT SO", "stop")
    assert (result.model, result.version, result.digest) == ("parrot", "7", DIGEST)
    assert result.usage == TextUsage(prompt_tokens=3, completion_tokens=3, cached_tokens=1)
    assert result.timings.total_ms == 3.0
    assert result.request_id


def test_a_chat_takes_a_string_or_a_conversation_and_goes_on_with_its_message(client: Client) -> None:
    assert client.chat("so be it").text == "SO BE IT"
    result = client.chat(TALK)
    assert client.chat([*TALK, result.message, {"role": "user", "content": "more"}]).text == "MORE"


def test_several_prompts_and_choices_come_in_order(client: Client) -> None:
    result = client.complete(["a", "b"], n=2)
    assert [(choice.index, choice.text) for choice in result] == [(0, "A"), (1, "A"), (2, "B"), (3, "B")]
    assert len(result) == 4
    with pytest.raises(UsageError, match="4 choices"):
        _ = result.text


def test_options_travel_under_the_servers_names_and_the_rest_is_left_to_it(client: Client, server: Behaviour) -> None:
    extra = {"guided_regex": "[A-Z ]+"}
    client.complete("a", model="parrot:7", max_tokens=5, temperature=0, stop=["\n"], logit_bias={7: -1.0}, extra=extra)
    assert body(server) == {
        "model": "parrot",
        "version": "7",
        "prompt": "a",
        "max_tokens": 5,
        "temperature": 0,
        "stop": ["\n"],
        "logit_bias": {"7": -1.0},
        "guided_regex": "[A-Z ]+",
    }


def test_log_probabilities_of_both_routes_are_read_alike(client: Client) -> None:
    (choice,) = client.complete("a", logprobs=1)
    assert choice.scores == (TokenScore("a", None), TokenScore("A", -0.5, (("X", -1.5),)))
    (choice,) = client.chat("a", logprobs=True, top_logprobs=1)
    assert choice.scores == (TokenScore("A", -0.5, (("X", -1.5),)),)


def test_a_refusal_is_its_own_exception(client: Client, server: Behaviour) -> None:
    with pytest.raises(EmptyPrompt) as caught:
        client.complete("")
    assert caught.value.field == "prompt"
    server.refusals.append(RefusalError("context_length_exceeded", 400, "INVALID_ARGUMENT", field="prompt"))
    with pytest.raises(ContextLengthExceeded):
        client.chat("a")


def test_what_is_no_conversation_is_refused_before_anything_is_sent(client: Client, server: Behaviour) -> None:
    for wrong in ({"role": "user", "content": "a"}, ["a"]):
        with pytest.raises(UsageError, match="list of mappings"):
            client.chat(wrong)  # type: ignore[arg-type]
    assert server.seen == []


@HTTP_ONLY
def test_an_answer_of_another_kind_is_unexpected(client: Client, server: Behaviour) -> None:
    server.refusals.append(RefusalError.bare(200, b'{"choices": [{}], "usage": {}}'))
    with pytest.raises(UnexpectedAnswer, match="not a text's"):
        client.complete("a")


@HTTP_ONLY
@pytest.mark.parametrize("task", ["complete", "chat"])
def test_a_stream_brings_pieces_and_adds_up_to_the_whole_answer(client: Client, task: str) -> None:
    ask = getattr(client, task)
    stream = ask("so be it", stream=True)
    pieces = list(stream)
    assert pieces[:3] == [TextPiece(index=0, text="SO"), TextPiece(index=0, text=" BE"), TextPiece(index=0, text=" IT")]
    assert pieces[-1].finish_reason == "stop"
    whole, streamed = ask("so be it"), stream.result
    assert streamed.choices == whole.choices
    assert (streamed.usage, streamed.model, streamed.version) == (whole.usage, whole.model, whole.version)
    assert streamed.timings == whole.timings


@HTTP_ONLY
def test_only_the_text_of_a_stream(client: Client) -> None:
    with client.chat("so be it", stream=True) as stream:
        assert list(stream.text()) == ["SO", " BE", " IT"]


@HTTP_ONLY
def test_line_ends_that_are_not_json_line_ends_do_not_break_a_stream(client: Client) -> None:
    odd = "one\u2028two\x85three \U0001f600"
    assert "".join(client.complete(odd, stream=True).text()) == odd.upper()


@HTTP_ONLY
def test_a_stream_is_retried_until_it_has_begun(client: Client, server: Behaviour, instant: Any) -> None:
    server.refusals += [RefusalError("queue_full", 429, "RESOURCE_EXHAUSTED")] * 2
    assert "".join(client.complete("a b", stream=True).text()) == "A B"
    assert instant.pauses == [0.5, 1.0]


@HTTP_ONLY
def test_a_stream_that_breaks_off_raises_after_its_pieces_and_is_not_retried(client: Client, server: Behaviour) -> None:
    stream = client.complete("so UNFORTUNATE a thing", stream=True)
    with pytest.raises(APIConnectionError, match="broke off"):
        list(stream)
    assert len(server.seen) == 1
    assert stream.result.choices[0].text == "SO UNFORTUNATE"
    assert stream.result.usage is None


@HTTP_ONLY
def test_an_error_inside_a_stream_is_its_own_exception(client: Client, server: Behaviour) -> None:
    stream = client.complete("so DOOMED a thing", stream=True)
    with pytest.raises(InferenceFailed) as caught:
        list(stream)
    assert stream.result.choices[0].text == "SO DOOMED"
    assert caught.value.request_id
    assert len(server.seen) == 1


@HTTP_ONLY
def test_a_stream_tells_the_server_how_long_the_whole_of_it_may_take(client: Client, server: Behaviour) -> None:
    list(client.complete("a", stream=True, timeout=7))
    assert server.seen[-1].headers["x-request-timeout-ms"] == "7000"


@HTTP_ONLY
def test_leaving_a_stream_early_frees_its_connection(client: Client, server: Behaviour) -> None:
    with client.complete(" ".join(["word"] * 50), stream=True) as stream:
        assert next(stream).text == "WORD"
    assert list(stream) == []
    assert client.complete("a").text == "A"


@HTTP_ONLY
async def test_awaited_streams_are_the_same(aclient: AsyncClient, client: Client) -> None:
    stream = await aclient.chat(TALK, stream=True)
    pieces = [piece async for piece in stream]
    assert pieces == list(client.chat(TALK, stream=True))
    assert stream.result.text == (await aclient.chat(TALK)).text == "SO BE IT"
    async with await aclient.complete("a b", stream=True) as again:
        assert [text async for text in again.text()] == ["A", " B"]
    with pytest.raises(InferenceFailed):
        [piece async for piece in await aclient.complete("DOOMED", stream=True)]


@GRPC_ONLY
def test_streams_are_http_only_and_say_so(client: Client, server: Behaviour) -> None:
    with pytest.raises(UsageError, match="not streamed over gRPC") as caught:
        client.complete("a", stream=True)
    assert caught.value.hint is not None
    assert "http://" in caught.value.hint
    assert server.seen == []
