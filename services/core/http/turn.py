"""One request and its answer as uvicorn keeps them, with shorter ways than ASGI's messages for what is there in full.

By ASGI, reading a body and noticing a disconnect each wake a coroutine, and a response travels in two messages, which
uvicorn writes to the socket one by one. At thousands of requests a second that is half of what a server costs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

Headers = list[tuple[bytes, bytes]]
CLOSE = (b"connection", b"close")


class Turn(RequestResponseCycle):
    """uvicorn's own state of one request; `receive` and `send` go on working.

    leave  what to do when the caller goes away before the answer is complete; None: nobody needs to know
    """

    leave: Callable[[], Any] | None = None

    @classmethod
    def of(cls, receive: Any) -> Turn | None:
        """The turn behind an application's `receive`, if uvicorn handed it over bare and this class is in use."""
        turn = getattr(receive, "__self__", None)
        return turn if isinstance(turn, cls) else None

    def take_body(self) -> bytes | None:
        """The body if it has arrived in full, else None. To be called before any `receive`."""
        if self.more_body or self.disconnected:
            return None
        body = bytes(self.body)
        self.body = bytearray()
        self.message_event.clear()  # what it will tell next is the disconnect
        return body

    def watch(self, leave: Callable[[], Any]) -> None:
        """Have `leave` called should the caller go away before the answer is complete."""
        self.leave = leave
        self.flow.resume_reading()  # a large body may have paused it, and only a reader learns of a disconnect

    def left(self) -> None:
        """The connection is lost."""
        if self.leave is not None and not self.response_complete:
            self.leave()

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response in one write. Names are lower case and values printable; nothing is checked here."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if CLOSE in headers:
            self.keep_alive = False
        elif not self.keep_alive:
            headers = [*headers, CLOSE]
        head = written_start(status, self.default_headers) + written_headers(headers)
        self.response_started = True
        self.transport.write(head if self.scope["method"] == "HEAD" else head + body)
        self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def written_start(status: int, defaults: Headers) -> bytes:
    """Status line, and the headers that are in every response: uvicorn makes a new list of them once a second."""
    return _written_start(status, *defaults)


@lru_cache(maxsize=16)
def _written_start(status: int, *defaults: tuple[bytes, bytes]) -> bytes:
    return STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % header for header in defaults])


def written_headers(headers: Headers) -> bytes:
    """The other headers, with the empty line after them."""
    lines: list[bytes] = []
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)
