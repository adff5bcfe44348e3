"""Closed-loop clients that cost little: each sends a prepared request, waits for the answer, sends the next.

HTTP clients are bare sockets in an event loop with one keep-alive connection each; gRPC clients have one channel each.
An answer is looked at just enough to tell good from bad; a sample is kept for the value check after the window.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import cast

import grpc

from benchmarks.wires import INFER_METHOD

KEEP_EVERY = 97
FINISH_SECONDS = 10.0
_LENGTH = b"content-length:"


class Tally:
    """What the clients of one measurement share: the requests in turn, and what came of them."""

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = requests
        self._next = 0
        self.stopping = False
        self.measuring = False
        self.latencies = array("d")  # seconds, of good answers
        self.failed = 0
        self.first_failure = ""
        self.kept: list[tuple[int, bytes, bytes]] = []  # index of the request, head, body

    def take(self) -> tuple[int, bytes]:
        """The next request, around and around."""
        index = self._next
        self._next = (index + 1) % len(self._requests)
        return index, self._requests[index]

    def good(self, seconds: float, index: int, head: bytes, body: bytes) -> None:
        if not self.measuring:
            return
        self.latencies.append(seconds)
        if len(self.latencies) % KEEP_EVERY == 1:
            self.kept.append((index, head, body))

    def bad(self, what: str) -> None:
        """Counted even outside the window: nothing may fail."""
        self.failed += 1
        self.first_failure = self.first_failure or what


class HttpClient(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, tally: Tally, finished: asyncio.Future[None]) -> None:
        self._tally = tally
        self._finished = finished
        self._received = b""
        self._expected = 0  # bytes of the whole response, 0: head not complete yet
        self._body_at = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self._ask()

    def _ask(self) -> None:
        if self._tally.stopping:
            self._transport.close()
            return
        self._received, self._expected = b"", 0
        self._index, request = self._tally.take()
        self._sent = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received = received = self._received + data if self._received else data
        if not self._expected:
            end = received.find(b"\r\n\r\n")
            if end < 0:
                return
            self._body_at = end + 4
            self._expected = self._body_at + _content_length(received[:end])
        if len(received) >= self._expected:
            self._answered(received)

    def _answered(self, received: bytes) -> None:
        head, body = received[: self._body_at], received[self._body_at :]
        if head[9:12] == b"200":
            self._tally.good(perf_counter() - self._sent, self._index, head, body)
        else:
            self._tally.bad(f"{head[:12].decode('latin-1')}: {body[:200].decode(errors='replace')}")
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._tally.stopping:
            self._tally.bad(f"connection lost: {exc}")
        if not self._finished.done():
            self._finished.set_result(None)


def _content_length(head: bytes) -> int:
    """Of a response head in any case. Raises ValueError without one: our server always sends it."""
    _, found, rest = head.lower().partition(_LENGTH)
    if not found:
        raise ValueError("a response without Content-Length")
    return int(rest.partition(b"\r\n")[0])


@asynccontextmanager
async def http_clients(tally: Tally, count: int, host: str, port: int) -> AsyncIterator[None]:
    """`count` clients at work inside the block; at its end they finish their request."""
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(count)]
    for future in futures:
        await loop.create_connection(partial(HttpClient, tally, future), host, port)
    try:
        yield
    finally:
        tally.stopping = True
        await asyncio.wait(futures, timeout=FINISH_SECONDS)


@asynccontextmanager
async def grpc_clients(tally: Tally, count: int, host: str, port: int) -> AsyncIterator[None]:
    """`count` clients at work inside the block, each on a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(f"{host}:{port}", options=options) for _ in range(count)]
    tasks = [asyncio.create_task(_ask_grpc(channel, tally)) for channel in channels]
    try:
        yield
    finally:
        tally.stopping = True
        await asyncio.wait(tasks, timeout=FINISH_SECONDS)
        await asyncio.gather(*(channel.close() for channel in channels))


async def _ask_grpc(channel: grpc.aio.Channel, tally: Tally) -> None:
    infer = channel.unary_unary(INFER_METHOD)  # without serializers: bytes in, bytes out
    while not tally.stopping:
        index, request = tally.take()
        sent = perf_counter()
        try:
            body = await infer(request)
        except grpc.aio.AioRpcError as error:  # every status but OK
            tally.bad(f"{error.code().name}: {error.details()}")
        else:
            tally.good(perf_counter() - sent, index, b"", body)
