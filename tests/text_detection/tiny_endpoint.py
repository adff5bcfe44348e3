"""An OpenAI-compatible endpoint that does what a test tells it, on a loopback port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Reply:
    """One answer. silent: nothing is sent until the caller goes away; hang_up: the connection is closed instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    hang_up: bool = False


def text(words: str) -> Reply:
    return Reply(body={"choices": [{"text": words}]})


@dataclass
class Endpoint:
    """What came: paths, headers in lower case, bodies."""

    url: str = ""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)


@asynccontextmanager
async def running_endpoint(script: Callable[[int], Reply]) -> AsyncIterator[Endpoint]:
    """script: the number of a call, from 0 -> its reply."""
    seen, gone = Endpoint(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        number = len(seen.bodies)
        seen.paths.append(head[0].split()[1])
        seen.headers.append(headers)
        seen.bodies.append(body)
        reply = script(number)
        if reply.silent:
            await gone.wait()
        if not (reply.silent or reply.hang_up):
            raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            more = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
            writer.write(f"HTTP/1.1 {reply.status} X\r\ncontent-length: {len(raw)}\r\n{more}\r\n".encode() + raw)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    seen.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield seen
    finally:
        gone.set()
        server.close()
