"""uvicorn's HTTP protocol with bounds on what comes before a body: uvicorn itself reads heads of any size, for ever.

A head (request line and headers) has to arrive within `HEAD_SECONDS` and in about `HEAD_BYTES`. Bytes are counted by
the read, so that requests which arrive in one piece cost nothing: a head may exceed the limit by one read (256 KiB).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http import auto
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0


class BoundedHeads(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._began_here = False  # the head began in the read being handled
        self._head_bytes = 0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._began_here = False
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        if not self._began_here:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._hang_up("The request's headers are too large.")
        elif self._patience is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._began_here, self._head_bytes = True, True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS, self._hang_up, "The request's headers did not arrive.")

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self, why: str) -> None:
        """Say so, unless an answer to an earlier request is still on its way."""
        self._stop_waiting()
        if self.cycle is None or self.cycle.response_complete:
            self.send_400_response(why)
        else:
            self.transport.close()


def bound_heads() -> None:
    """Let the uvicorn server that this process is about to start use the bounds."""
    auto.AutoHTTPProtocol = BoundedHeads
