"""Callers who read streams of text on bare sockets, and some of whom leave in the middle."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

HEAD = "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}content-length: {length}\r\n\r\n"


@dataclass
class Heard:
    """What one caller heard. complete: the stream's last word arrived."""

    request: dict[str, Any]
    text: str = ""
    ids: list[int] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # ids of the answers its events belonged to
    complete: bool = False


async def listen(
    port: int,
    request: dict[str, Any],
    leave_after: int | None = None,
    bearer: str | None = None,
    begun: asyncio.Event | None = None,
) -> Heard:
    """Read a stream.

    leave_after  hang up after so many events
    bearer       the Authorization header
    begun        set with the first event
    """
    heard = Heard(request)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        body = json.dumps({**request, "stream": True, "return_token_ids": True}).encode()
        more = f"authorization: {bearer}\r\n" if bearer else ""
        writer.write(HEAD.format(more=more, length=len(body)).encode() + body)
        events = 0
        while (leave_after is None or events < leave_after) and not heard.complete:
            line = await reader.readline()
            if not line:
                return heard
            if line.startswith(b"data: "):
                events += 1
                if begun is not None:
                    begun.set()
                _take(heard, line[6:].strip())
    finally:
        writer.close()
    return heard


def _take(heard: Heard, data: bytes) -> None:
    if data == b"[DONE]":
        heard.complete = True
        return
    chunk = json.loads(data)
    assert "error" not in chunk, chunk
    heard.names.add(chunk["id"])
    for choice in chunk["choices"]:
        heard.text += choice["text"]
        heard.ids += choice["token_ids"]
