"""Server-sent events of an OpenAI-compatible route, read from a bare connection as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import orjson

from pressroom.bench_http import error_of
from pressroom.bench_target import Server

REFUSAL_SECONDS = 10.0  # to read what a refusal says


class RefusedError(Exception):
    """A status other than 200, or an error inside the stream."""

    def __init__(self, failure: str, said: bytes) -> None:
        super().__init__(failure)
        self.failure, self.said = failure, said


async def stream_events(server: Server, request: bytes) -> AsyncGenerator[dict[str, Any]]:
    """The documents of a stream of server-sent events, until it says it is done.

    Raises RefusedError; OSError, ValueError or asyncio.IncompleteReadError where the stream breaks off.
    """
    reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.context())
    try:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if head[9:12] != b"200":
            body = await asyncio.wait_for(reader.read(4096), REFUSAL_SECONDS)
            raise RefusedError(*error_of(head[9:12].decode("latin-1"), body))
        pending = b""
        async for part in _body(reader, chunked=b"transfer-encoding: chunked" in head):
            *events, pending = (pending + part).replace(b"\r\n", b"\n").split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    return
                if event.startswith(b"data:"):
                    yield _document(event[5:])
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader, *, chunked: bool) -> AsyncIterator[bytes]:
    if not chunked:
        while part := await reader.read(65536):
            yield part
        return
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        yield (await reader.readexactly(size + 2))[:-2]


def _document(raw: bytes) -> dict[str, Any]:
    document = orjson.loads(raw)
    if not isinstance(document, dict):
        raise ValueError("an event that is no object")
    if "error" in document:
        raise RefusedError(*error_of("200", raw))
    return document


def completion_tokens(event: dict[str, Any]) -> int:
    """What a chunk says of the answer's length; 0 of most."""
    usage = event.get("usage") or {}
    return int(usage.get("completion_tokens", 0))


def has_text(event: dict[str, Any]) -> bool:
    """Whether a chunk carries text."""
    choices = event.get("choices") or [{}]
    return bool(choices[0].get("text") or (choices[0].get("delta") or {}).get("content"))
