"""One keep-alive HTTP/1.1 connection that costs little: prepared bytes out; status, head and body in.

A load generator shares its machine with the server it measures, so this is a bare socket in the event loop. It reads
answers framed by Content-Length, in chunks, or by the end of the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple

import orjson

_LENGTH, _CHUNKED, _CLOSE = b"\r\ncontent-length:", b"\r\ntransfer-encoding: chunked", b"\r\nconnection: close"
_END = b"\r\n\r\n"
LOST = "connection lost"


class Outcome(NamedTuple):
    """What became of one request.

    failure  empty: a good answer; else its status and code, e.g. "429 queue_full", "UNAVAILABLE"
    head     the answer's head in lower case; empty for gRPC
    body     the answer's body, or what a failure said
    """

    failure: str
    head: bytes
    body: bytes


Answered = Callable[[Outcome], None]


def request(host: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """A prepared HTTP/1.1 POST; host as the header says it."""
    fields = {"Host": host, **headers, "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


class HttpLine(asyncio.Protocol):
    """One connection, one request at a time. `usable` is false once the peer has closed it or said it would."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._where = (host, port, tls)
        self._transport: asyncio.Transport | None = None
        self._answered: Answered | None = None
        self._received = self._head = b""
        self._body_at = 0
        self._end: int | None = None  # of the whole answer, once its head says so; -1: where the connection ends
        self.usable = False

    async def open(self) -> None:
        """Connect. Raises OSError."""
        host, port, tls = self._where
        self._transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, host, port, ssl=tls)
        self.usable = True

    def ask(self, request: bytes, answered: Answered) -> None:
        """Send a request; `answered` is called once, from the event loop."""
        self._answered, self._received, self._body_at, self._end = answered, b"", 0, None
        if self._transport is None or not self.usable:
            self._lost(b"")
        else:
            self._transport.write(request)

    def close(self) -> None:
        """Drop the connection; a request on its way is not answered any more."""
        self.usable, self._answered = False, None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received = received = self._received + data if self._received else data
        if not self._body_at:
            end = received.find(_END)
            if end < 0:
                return
            self._body_at = end + len(_END)
            self._head = head = received[:end].lower()
            self._end = _content_end(head, self._body_at)
        if self._end is None:
            body = read_chunks(received, self._body_at)
            if body is not None:
                self._complete(body)
        elif 0 <= self._end <= len(received):
            self._complete(received[self._body_at : self._end])

    def _complete(self, body: bytes) -> None:
        head = self._head
        if _CLOSE in head:
            self.usable = False
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(Outcome("", head, body) if head[9:10] == b"2" else _failed(head, body))

    def _lost(self, why: bytes) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(Outcome(LOST, b"", why))

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if self._end == -1 and self._body_at and exc is None:
            self._complete(self._received[self._body_at :])
        else:
            self._lost(str(exc or "").encode())


def _failed(head: bytes, body: bytes) -> Outcome:
    failure, said = error_of(head[9:12].decode("latin-1"), body)
    return Outcome(failure, head, said)


def _content_end(head: bytes, body_at: int) -> int | None:
    """Where an answer with this head ends; None: its chunks tell; -1: where the connection ends."""
    _, found, rest = head.partition(_LENGTH)
    if found:
        return body_at + int(rest.partition(b"\r\n")[0])
    if _CHUNKED in head:
        return None
    return body_at if head[9:12] in (b"204", b"304") else -1


def read_chunks(received: bytes, at: int) -> bytes | None:
    """The body whose chunks begin at `at`, or None while some of it is missing."""
    parts: list[bytes] = []
    while (line := received.find(b"\r\n", at)) >= 0:
        size = int(received[at:line].partition(b";")[0], 16)
        at = line + 2
        if size == 0:
            return b"".join(parts) if received.find(b"\r\n", at) >= 0 else None
        parts.append(received[at : at + size])
        at += size + 2
        if at > len(received):
            return None
    return None


def error_of(status: str, body: bytes) -> tuple[str, bytes]:
    """Status and, where the body has an error envelope, its code; and what it said."""
    try:
        error = orjson.loads(body)["error"]
        code = error.get("code") or error.get("type") or ""
        said = str(error.get("message") or "").encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        code, said = "", body
    return f"{status} {code}".strip(), said
