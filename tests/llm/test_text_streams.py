"""Streams of a running server: whole characters, stop strings, choices, callers who leave."""

from __future__ import annotations

import json
import socket

import pytest
from live_server import LiveServer, eventually
from text_server import CHAT, CONTEXT, FP32, answer, events, text_of

LONG = {"prompt": "x", "max_tokens": CONTEXT - 2, "ignore_eos": True, "temperature": 0}


def test_a_stream_says_what_the_whole_answer_says(text: LiveServer) -> None:
    for seed in range(6):
        body = {"prompt": "Einöde", "max_tokens": 40, "seed": seed, "temperature": 1.2}
        chunks = list(events(text, **body))
        whole = answer(text, **body)["choices"][0]
        assert text_of(chunks) == whole["text"]
        assert chunks[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]


def test_no_event_holds_a_part_of_a_character(text: LiveServer) -> None:
    """The answer is made to be characters of two to four bytes, each of them several tokens."""
    body = {"prompt": "x", "max_tokens": 60, "seed": 1, "guided_regex": "[äöü€🙂日本]{6}"}
    chunks = list(events(text, **body))
    said = text_of(chunks)
    assert len(said) == 6
    assert set(said) <= set("äöü€🙂日本")
    assert "\ufffd" not in "".join(text_of([chunk]) for chunk in chunks)
    assert max(len(text_of([chunk])) for chunk in chunks) == 1


def test_a_stop_string_is_found_wherever_tokens_end(text: LiveServer) -> None:
    whole = answer(text, prompt="stop me", max_tokens=60, temperature=0, ignore_eos=True)["choices"][0]["text"]
    for begin in (3, 7, 12):
        stop = whole[begin : begin + 4]
        expected = whole[: whole.index(stop)]
        body = {"prompt": "stop me", "max_tokens": 60, "temperature": 0, "ignore_eos": True, "stop": ["never", stop]}
        stopped = answer(text, **body)["choices"][0]
        assert (stopped["text"], stopped["finish_reason"]) == (expected, "stop")
        assert text_of(list(events(text, **body))) == expected


def test_several_choices_are_streamed(text: LiveServer) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "n": 3, "seed": 4}
    chunks = list(events(text, CHAT, **body))
    whole = answer(text, CHAT, **body)["choices"]
    assert [text_of(chunks, i) for i in range(3)] == [choice["message"]["content"] for choice in whole]
    assert {chunk["choices"][0]["index"] for chunk in chunks} == {0, 1, 2}


def test_usage_and_explanation_come_last(text: LiveServer) -> None:
    chunks = list(events(text, prompt="abc", max_tokens=5, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    said = chunks[-1]["pressroom"]
    assert (said["model"], said["version"]) == (FP32, "1")
    timings = said["timings"]
    assert timings["total_ms"] == pytest.approx(sum(v for k, v in timings.items() if k != "total_ms"), abs=0.01)


def leave_after_first_event(server: LiveServer, body: bytes) -> None:
    lines = ["POST /v1/completions HTTP/1.1", "host: x", f"content-length: {len(body)}", "", ""]
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        received = b""
        while b"data: " not in received:
            received += connection.recv(4096)


def test_a_caller_who_leaves_in_mid_stream_frees_the_slots(text: LiveServer) -> None:
    """128 sequences on eight slots: when the first event is there, most of them have not begun."""

    def outcomes(name: str) -> float:
        return text.metric("pressroom_llm_sequences_total", model=FP32, outcome=name)

    cancelled, completed = outcomes("cancelled"), outcomes("length")
    body = json.dumps({"model": FP32, "stream": True, "n": 128, **LONG}).encode()
    leave_after_first_event(text, body)
    eventually(
        lambda: outcomes("cancelled") - cancelled + outcomes("length") - completed == 128, "every sequence has ended"
    )
    assert outcomes("cancelled") - cancelled > 64
    eventually(lambda: text.metric("pressroom_llm_running_sequences", model=FP32) == 0, "no slot is held")
    assert text.metric("pressroom_llm_kv_reserved_tokens", model=FP32) == 0
    assert text.metric("pressroom_requests_total", model=FP32, route="/v1/completions", code="cancelled") >= 1


def test_a_deadline_before_the_first_token_is_a_status(text: LiveServer) -> None:
    response = text.post(
        "/v1/completions",
        json={"model": FP32, "stream": True, "n": 128, **LONG},
        headers={"X-Request-Timeout-Ms": "1"},
    )
    assert response.status_code == 504
    assert response.json()["error"]["type"] == "server_error"
