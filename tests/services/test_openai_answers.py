"""What the two text routes write: whole answers and events, scores, counts, endings, failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from live_server import until
from scripted_engine import EOS, ScriptedEngine, make_reader

from services.core.call import Call
from services.core.errors import ApiError
from services.openai.answering import Answering, explained, read_request
from services.openai.chat import Chat
from services.openai.completions import Completions
from services.openai.errors import envelope

TALK = [{"role": "user", "content": "hello"}]
Json = dict[str, Any]


class Named:
    """What an answer says of its model."""

    name, version, digest = "tiny", "3", "sha256:0"


class Scene:
    """A model whose engine says what it is told to."""

    def __init__(self, *script: str, **engine: Any) -> None:
        self.reader = make_reader()
        self.engine = ScriptedEngine(self.reader.tokenizer, script or (" so be it",), **engine)
        self.call = Call("/test", "none", "id-1")
        self.call.model = Named()  # type: ignore[assignment]

    def answering(self, request: Json) -> Answering:
        route = Chat if "messages" in request else Completions
        reading = read_request(route, request, self.reader, self.engine.context)
        return Answering(reading, self.call, Named(), self.engine, self.reader.tokenizer)  # type: ignore[arg-type]

    async def whole(self, **request: Any) -> Json:
        with self.answering(request) as answering:
            return await answering.whole()

    async def events(self, **request: Any) -> AsyncGenerator[bytes]:
        with self.answering({**request, "stream": True}) as answering:
            async for event in answering.events():
                yield event

    async def chunks(self, **request: Any) -> list[Json]:
        events = [event async for event in self.events(**request)]
        assert events[-1] == b"data: [DONE]\n\n"
        assert all(event.startswith(b"data: ") and event.endswith(b"\n\n") for event in events)
        return [json.loads(event[6:]) for event in events[:-1]]


def spoken(chunks: list[Json], index: int = 0) -> str:
    """A choice's text as its chunks tell it."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)


async def test_a_completion_has_openais_shape() -> None:
    answer = await Scene(" so").whole(prompt="ab")
    created = answer.pop("created")
    assert isinstance(created, int)
    assert answer == {
        "id": "cmpl-id-1",
        "object": "text_completion",
        "model": "tiny",
        "system_fingerprint": "sha256:0",
        "choices": [{"index": 0, "text": " so", "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 2,
            "completion_tokens": 3,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


async def test_a_chat_has_openais_shape_and_an_explanation_beside_it() -> None:
    scene = Scene("so")
    answer = explained(await scene.whole(messages=TALK), scene.call)
    assert (answer["id"], answer["object"]) == ("chatcmpl-id-1", "chat.completion")
    message = {"role": "assistant", "content": "so", "refusal": None}
    assert answer["choices"] == [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]
    said = answer["pressroom"]
    assert (said["model"], said["version"], said["request_id"], said["batch_rows"]) == ("tiny", "3", "id-1", 1)
    stages = {name: ms for name, ms in said["timings"].items() if name != "total_ms"}
    assert sum(stages.values()) == pytest.approx(said["timings"]["total_ms"], abs=1e-3)


async def test_an_answer_that_was_cut_says_so() -> None:
    answer = await Scene().whole(prompt="ab", max_tokens=3)
    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == (" so", "length")


async def test_choices_come_prompt_by_prompt_and_a_prompt_counts_once() -> None:
    answer = await Scene("A", "B", "C", "D").whole(prompt=["x", "yz"], n=2)
    assert [(c["index"], c["text"]) for c in answer["choices"]] == [(0, "A"), (1, "B"), (2, "C"), (3, "D")]
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (3, 4)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 4


async def test_token_ids_come_on_request() -> None:
    scene = Scene(" so")
    expected = scene.reader.tokenizer.encode(" so")
    assert (await scene.whole(prompt="ab", return_token_ids=True))["choices"][0]["token_ids"] == expected
    chunks = await Scene(" so").chunks(prompt="ab", return_token_ids=True)
    assert [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]] == expected


async def test_completion_scores_name_tokens_their_alternatives_and_where_they_begin() -> None:
    scene = Scene("äb")
    scores = (await scene.whole(prompt="x", logprobs=1))["choices"][0]["logprobs"]
    assert scores["tokens"] == ["bytes:\\xc3", "bytes:\\xa4", "b"]
    assert scores["text_offset"] == [0, 0, 1]
    chosen = scene.reader.tokenizer.encode("äb")
    assert scores["token_logprobs"] == [-token / 100 for token in chosen]
    assert scores["top_logprobs"][2] == {"b": scores["token_logprobs"][2]}


async def test_an_echoed_prompt_is_scored_from_its_second_token() -> None:
    choice = (await Scene("c").whole(prompt="äb", logprobs=0, echo=True))["choices"][0]
    assert choice["text"] == "äbc"
    scores = choice["logprobs"]
    assert scores["tokens"] == ["bytes:\\xc3", "bytes:\\xa4", "b", "c"]
    assert scores["token_logprobs"][0] is None
    assert scores["top_logprobs"][0] is None
    assert scores["text_offset"] == [0, 0, 1, 2]
    only = (await Scene("c").whole(prompt="äb", logprobs=0, echo=True, max_tokens=0))["choices"][0]
    assert only["text"] == "äb"
    assert only["logprobs"]["token_logprobs"] == scores["token_logprobs"][:3]


async def test_chat_scores_have_bytes_and_alternatives() -> None:
    content = (await Scene("ä").whole(messages=TALK, logprobs=True, top_logprobs=2))["choices"][0]["logprobs"][
        "content"
    ]
    assert [entry["bytes"] for entry in content] == [[0xC3], [0xA4]]
    assert [len(entry["top_logprobs"]) for entry in content] == [2, 2]
    assert content[0]["top_logprobs"][0]["logprob"] == content[0]["logprob"]


# --- events


async def test_chunks_add_up_to_the_whole_answer() -> None:
    whole = (await Scene().whole(prompt="ab"))["choices"][0]
    chunks = await Scene().chunks(prompt="ab")
    assert spoken(chunks) == whole["text"]
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert {c["object"] for c in chunks} == {"text_completion"}
    assert {c["id"] for c in chunks} == {"cmpl-id-1"}


async def test_a_chats_first_chunk_says_who_speaks_and_the_last_explains_the_call() -> None:
    chunks = await Scene("so").chunks(messages=TALK)
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert spoken(chunks) == "so"
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert chunks[-1]["pressroom"]["version"] == "3"
    assert not any("pressroom" in c or "usage" in c for c in chunks[:-1])


async def test_usage_comes_in_a_chunk_of_its_own_if_it_is_wanted() -> None:
    chunks = await Scene("so").chunks(messages=TALK, stream_options={"include_usage": True})
    assert [c["usage"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 2)
    assert "pressroom" in chunks[-1]


@pytest.mark.parametrize("text", ["é", "🙂 ok", "日本語", "a\u2028b\x85c"])
async def test_no_chunk_holds_half_a_character(text: str) -> None:
    chunks = await Scene(text).chunks(prompt="x", max_tokens=50)
    assert spoken(chunks) == text
    assert not any("\ufffd" in spoken([chunk]) for chunk in chunks)


async def test_scores_of_tokens_that_are_held_back_come_with_the_text() -> None:
    chunks = await Scene("é!").chunks(prompt="x", logprobs=0)
    tokens = [chunk["choices"][0]["logprobs"]["tokens"] for chunk in chunks]
    assert tokens == [["bytes:\\xc3", "bytes:\\xa9"], ["!"], []]
    assert [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in chunks][:2] == [[0, 0], [1]]


async def test_a_stop_string_across_tokens_never_shows() -> None:
    request = {"prompt": "x", "stop": ["be it", "zzz"]}
    assert (await Scene().whole(**request))["choices"][0]["text"] == " so "
    chunks = await Scene().chunks(**request)
    assert spoken(chunks) == " so "
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_an_echo_is_streamed_first_with_its_scores() -> None:
    chunks = await Scene("c").chunks(prompt="ab", echo=True, logprobs=0)
    assert chunks[0]["choices"][0]["text"] == "ab"
    assert chunks[0]["choices"][0]["logprobs"]["tokens"] == ["a", "b"]
    assert chunks[1]["choices"][0]["logprobs"]["text_offset"] == [2]


async def test_choices_are_streamed_side_by_side_and_end_one_by_one() -> None:
    chunks = await Scene("AAA", "B", "CC").chunks(prompt="x", n=3)
    assert [spoken(chunks, i) for i in range(3)] == ["AAA", "B", "CC"]
    ended = [c["choices"][0]["index"] for c in chunks if c["choices"][0]["finish_reason"]]
    assert sorted(ended) == [0, 1, 2]
    assert "pressroom" in chunks[-1]
    assert chunks[0]["choices"][0]["index"] != chunks[1]["choices"][0]["index"]


# --- ends nobody wished for


async def test_a_failure_of_one_choice_is_the_requests_and_frees_the_others() -> None:
    scene = Scene("AAAA", fail_after=2)
    with pytest.raises(ApiError) as caught:
        await scene.whole(prompt="x", n=3)
    assert caught.value.code == "inference_failed"
    assert scene.call.batch_rows == 0


async def test_a_failure_after_the_first_token_leaves_the_text_before_it() -> None:
    events = Scene("AAAA", fail_after=2).events(prompt="x")
    assert spoken([json.loads((await anext(events))[6:]) for _ in range(2)]) == "AA"
    with pytest.raises(ApiError):
        await anext(events)


async def test_a_request_that_does_not_fit_whole_takes_no_slot() -> None:
    scene = Scene(room=2)
    with pytest.raises(ApiError) as caught:
        await scene.whole(prompt="x", n=3)
    assert caught.value.code == "queue_full"
    assert scene.engine.running == set()


async def test_a_caller_who_leaves_frees_every_slot() -> None:
    scene = Scene("AAAA", pause=asyncio.Event())
    task = asyncio.create_task(scene.whole(prompt="x", n=3))
    await until(lambda: len(scene.engine.running) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.engine.running == set()


async def test_a_stream_that_is_closed_frees_every_slot() -> None:
    for choices in (1, 3):
        scene = Scene("AAAA", pause=asyncio.Event())
        events = scene.events(prompt="x", n=choices)
        assert await anext(events)
        assert len(scene.engine.running) == choices
        await events.aclose()
        assert scene.engine.running == set()


def test_the_envelope_is_the_common_one_and_what_openais_clients_read() -> None:
    error = ApiError("context_length_exceeded", "too long", field="prompt", hint="shorten it")
    ours = error.envelope("id-1")["error"]
    assert envelope(error, "id-1")["error"] == {**ours, "type": "invalid_request_error", "param": "prompt"}
    kinds = {code: envelope(ApiError(code, "x"), "id")["error"]["type"] for code in ("queue_full", "internal")}
    assert kinds == {"queue_full": "rate_limit_error", "internal": "server_error"}
    assert EOS not in str(ours)
