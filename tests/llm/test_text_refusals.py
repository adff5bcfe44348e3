"""Refusals of a running server: one envelope with what OpenAI's clients read, on every way in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from live_server import LiveServer
from refusals import check_grpc, infer_message
from text_server import CHAT, COMPLETIONS, CONTEXT, FP32, INT8, ask, refused

TALK = [{"role": "user", "content": "hi"}]
PICTURE = [{"role": "user", "content": [{"type": "image_url"}]}]
CASES: list[tuple[str, dict[str, Any], int, str, str]] = [
    (COMPLETIONS, {}, 422, "invalid_request", "prompt"),
    (COMPLETIONS, {"prompt": ""}, 422, "empty_prompt", "prompt"),
    (COMPLETIONS, {"prompt": ["a", []]}, 422, "empty_prompt", "prompt[1]"),
    (COMPLETIONS, {"prompt": "a", "temperature": -1}, 422, "invalid_request", "temperature"),
    (COMPLETIONS, {"prompt": "a", "stop": [""]}, 422, "invalid_request", "stop[0]"),
    (COMPLETIONS, {"prompt": "a", "colour": "red"}, 422, "invalid_request", "colour"),
    (COMPLETIONS, {"prompt": "a", "guided_regex": "("}, 422, "invalid_request", "guided_regex"),
    (COMPLETIONS, {"prompt": [5] * (CONTEXT + 1)}, 400, "context_length_exceeded", "prompt"),
    (COMPLETIONS, {"prompt": "a", "max_tokens": CONTEXT}, 400, "context_length_exceeded", "max_tokens"),
    (COMPLETIONS, {"prompt": "a", "model": "nobody"}, 404, "model_not_found", "model"),
    (COMPLETIONS, {"prompt": "a", "model": f"{FP32}:9"}, 404, "version_not_found", "version"),
    (COMPLETIONS, {"prompt": "a", "model": 7}, 422, "invalid_request", "model"),
    (CHAT, {"messages": []}, 422, "empty_prompt", "messages"),
    (CHAT, {"messages": PICTURE}, 422, "invalid_request", "messages[0].content[0]"),
    (CHAT, {"messages": TALK, "tools": [{"type": "function"}]}, 422, "not_supported", "tools"),
    (CHAT, {"messages": TALK, "prompt": "a"}, 422, "invalid_request", "prompt"),
    (CHAT, {"messages": TALK, "max_tokens": CONTEXT}, 400, "context_length_exceeded", "max_tokens"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body", "status", "code", "field"), CASES)
def test_a_refusal_is_a_status_streamed_or_not(
    text: LiveServer, path: str, body: dict[str, Any], status: int, code: str, field: str, stream: bool
) -> None:
    error = refused(ask(text, path, **body, stream=stream), status, code, field)
    assert error["message"]


@pytest.mark.parametrize(("path", "body", "status", "code", "field"), CASES)
def test_the_same_body_in_a_tensor_is_refused_alike(
    text: LiveServer, path: str, body: dict[str, Any], status: int, code: str, field: str
) -> None:
    if field in ("model", "version"):
        return  # a tensor's model is named outside it
    tensor = {"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps({"model": FP32, **body})]}
    response = text.post(f"/v2/models/{FP32}/infer", json={"inputs": [tensor]})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["error"]["field"] == field
    message = infer_message(FP32)
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(
        json.dumps(body).encode()
    )
    check_grpc(text, message, "INVALID_ARGUMENT", code, field)


def test_what_is_refused_before_a_model_is_found_has_the_same_envelope(text: LiveServer) -> None:
    wrong_type = text.post(COMPLETIONS, content=b"{}", headers={"content-type": "text/plain"})
    refused(wrong_type, 415, "unsupported_media_type", "Content-Type")
    refused(text.post(CHAT, content=b"{"), 400, "invalid_json", None)
    refused(text.post(CHAT, content=b"[1]"), 422, "invalid_request", None)
    late = text.post(CHAT, json={"messages": TALK}, headers={"X-Request-Timeout-Ms": "soon"})
    refused(late, 422, "invalid_request", "X-Request-Timeout-Ms")


def test_several_models_want_to_be_named(text: LiveServer) -> None:
    error = refused(text.post(COMPLETIONS, json={"prompt": "a"}), 422, "invalid_request", "model")
    assert FP32 in error["hint"]
    assert INT8 in error["hint"]


def test_a_refusal_streams_nothing_and_counts_as_one(text: LiveServer) -> None:
    def count() -> float:
        return text.metric("pressroom_requests_total", model=FP32, route=COMPLETIONS, code="empty_prompt")

    before = count()
    response = ask(text, prompt="", stream=True)
    assert response.headers["content-type"] == "application/json"
    assert count() == before + 1
