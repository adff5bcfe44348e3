"""Scripted servers on loopback: HTTP that answers what a test tells it, and gRPC; both end with the block."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from pressroom.bench_grpc import INFER_METHOD

Writer = asyncio.StreamWriter
Script = Callable[[str, bytes, Writer], Any]  # path, body, where to write; may be a coroutine


def respond(status: str, body: bytes, *headers: str) -> bytes:
    """A whole HTTP answer."""
    lines = "".join(f"{line}\r\n" for line in (*headers, f"content-length: {len(body)}"))
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def json_response(value: Any, status: str = "200 OK") -> bytes:
    return respond(status, json.dumps(value).encode(), "content-type: application/json")


def post(body: bytes = b"x", path: str = "/") -> bytes:
    """A request."""
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def http_peer(script: Script) -> AsyncIterator[int]:
    """Port of a server that runs the script for every request."""
    writers: set[Writer] = set()

    async def handle(reader: asyncio.StreamReader, writer: Writer) -> None:
        writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length or 0))
                said = script(head.split(b" ", 2)[1].decode(), body, writer)
                if asyncio.iscoroutine(said):
                    await said
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writers.discard(writer)
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in list(writers):
            writer.close()
        await server.wait_closed()


@asynccontextmanager
async def grpc_peer(infer: Callable[[bytes, Any], Any]) -> AsyncIterator[int]:
    """Port of a server whose ModelInfer is `infer` (bytes in, bytes out)."""
    service, _, method = INFER_METHOD[1:].partition("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(infer)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)
