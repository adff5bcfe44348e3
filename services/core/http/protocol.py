"""uvicorn's HTTP protocol with bounds on what comes before a body: uvicorn itself reads heads of any size, for ever.

A head (request line and headers) has to arrive within `HEAD_SECONDS` and in about `HEAD_BYTES`. Bytes are counted by
the read, so that requests which arrive in one piece cost nothing: a head may exceed the limit by one read (256 KiB).

What uvicorn does for every request and this server has no use for is left out: lines of an access log nobody reads,
headers of proxies, a timer armed and cancelled. Requests that look like the one before them need not be parsed at all
(`services.core.http.express`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http import auto, httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from services.core.http.express import Express, Head, Ride
from services.core.http.turn import Turn

HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0


class BoundedHeads(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.access_log = False
        if isinstance(self.app, ProxyHeadersMiddleware):
            self.app = self.app.app
        self._idle_since: float | None = None  # loop seconds; None: a request is on its way
        self._in_head = True
        self._began_here = False  # the head began in the read being handled
        self._head_bytes = 0
        self._patience: asyncio.TimerHandle | None = None
        self._between = True  # the parser holds nothing of a request
        self._begun = 0  # requests, in the read being handled
        self._express: Express | None = getattr(self.app, "express", None)
        self._head: Head | None = None  # of the last request, if it may come again
        self._ride: Ride | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        super().connection_lost(exc)
        if isinstance(self.cycle, Turn):
            self.cycle.left()
        ride, self._ride = self._ride, None
        if ride is not None:
            ride.left()

    def data_received(self, data: bytes) -> None:
        if self._head is not None and self._head.matches(data) and self._take(self._head, data):
            return
        between, self._began_here, self._begun = self._between, False, 0
        super().data_received(data)
        if self._express is not None and between and self._between and self._begun == 1:
            self._head = self._express.learn(data, self.scope)
        if not self._in_head or self.transport.is_closing():
            return
        if not self._began_here:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._hang_up("The request's headers are too large.")
        elif self._patience is None:
            self._wait_for_head()

    def _take(self, head: Head, data: bytes) -> bool:
        """Answer a request with a known head here, unless an earlier one is still being answered."""
        idle = self._between and (self.cycle is None or self.cycle.response_complete)
        if self._express is None or not idle or self.flow.write_paused:
            return False
        ride = self._express.take(head, data, self)
        if ride is None:
            return False
        self._idle_since = None
        self.cycle = self._ride = ride  # type: ignore[assignment]
        ride.begin()
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._began_here, self._head_bytes = True, True, 0
        self._between = False
        self._begun += 1

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._between = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Start the next request that is waiting, or the keep-alive clock; its timer serves the whole connection."""
        self.server_state.total_requests += 1
        if self._ride is not None:  # an idle connection does not keep the tensors of its last request
            if self.cycle is self._ride:  # type: ignore[comparison-overlap]
                self.cycle = None  # type: ignore[assignment]
            self._ride = None
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._watch_idle(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _watch_idle(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self._end_if_idle)

    def _end_if_idle(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            return  # the answer to the request on its way starts the clock again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._watch_idle(left)
        else:
            self.timeout_keep_alive_handler()

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
    httptools_impl.RequestResponseCycle = Turn  # type: ignore[misc]
