"""How the tests of a served language model ask it: bodies over HTTP, events, metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
from live_server import LiveServer

FP32, INT8 = "tiny-fp32", "tiny-int8"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
CONTEXT = 256
Json = dict[str, Any]


def ask(server: LiveServer, path: str = COMPLETIONS, **body: Any) -> httpx.Response:
    """One request to a route; the model is the float32 one unless named."""
    return server.post(path, json={"model": FP32, **body}, timeout=60)


def answer(server: LiveServer, path: str = COMPLETIONS, **body: Any) -> Json:
    """Its answer, which must be one."""
    response = ask(server, path, **body)
    assert response.status_code == 200, response.text
    document: Json = response.json()
    return document


def tokens_of(document: Json) -> list[list[int]]:
    return [choice["token_ids"] for choice in document["choices"]]


def events(server: LiveServer, path: str = COMPLETIONS, **body: Any) -> Iterator[Any]:
    """The documents of a stream, without its last word, which must be there."""
    request = {"model": FP32, "stream": True, **body}
    with httpx.stream("POST", server.url + path, json=request, timeout=60) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        raw = b"".join(response.iter_bytes())
    parts = raw.split(b"\n\n")
    assert parts.pop() == b""
    assert parts.pop() == b"data: [DONE]"
    for part in parts:
        assert part.startswith(b"data: ")
        yield json.loads(part[6:])


def text_of(chunks: list[Json], index: int = 0) -> str:
    """A choice's text as its chunks tell it."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(c["text"] if "text" in c else c["delta"].get("content", "") for c in choices)


def refused(response: httpx.Response, status: int, code: str, field: str | None) -> Json:
    """The error of a refusal, checked."""
    assert response.status_code == status, response.text
    error: Json = response.json()["error"]
    assert (error["code"], error["field"], error["param"]) == (code, field, field)
    assert error["type"]
    assert error["request_id"] == response.headers["x-request-id"]
    return error
