"""The sending half of a connection: what may be written, and when (RFC 9113, section 5.2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from services.core.http2 import frames

if TYPE_CHECKING:
    from services.core.http2.rpc import Rpc

_CLOSING_SECONDS = 1.0
_MOST_UNSENT = 64 * 1024


class Sender(asyncio.Protocol):
    """Writes frames within the peer's windows and at the pace of its socket.

    max_frame  bytes of one frame
    window     bytes all calls together may send
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.max_frame = frames.SMALLEST_MAX_FRAME
        self.window = frames.INITIAL_WINDOW
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._changed: asyncio.Future[None] | None = None  # somebody waits for room to send

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._wake()

    def write(self, data: bytes) -> None:
        """Send frames, with all others of this pass of the event loop: calls answered by one batch share a write."""
        if self._transport is None:
            return
        if not self._unsent:
            self.loop.call_soon(self._flush)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > _MOST_UNSENT:  # or a caller who does not read would be noticed too late
            self._flush()

    def _flush(self) -> None:
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if unsent and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))

    def may_send(self, call: Rpc, size: int) -> bool:
        """Take room for `size` bytes in one frame, if there is all of it right now."""
        if size > self.max_frame or size > self.window or size > call.window or not self._writable:
            return False
        self.window -= size
        call.window -= size
        return True

    async def room(self, call: Rpc, wanted: int) -> int:
        """Wait for room and take it: some bytes, at most `wanted`."""
        while True:
            size = min(wanted, self.max_frame, self.window, call.window)
            if size > 0 and self._writable:
                self.window -= size
                call.window -= size
                return size
            if self._changed is None:
                self._changed = self.loop.create_future()
            await asyncio.shield(self._changed)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    def _close(self) -> None:
        if self._transport is not None:
            self._flush()
            transport = self._transport
            transport.close()
            self.loop.call_later(_CLOSING_SECONDS, transport.abort)  # a peer that does not read keeps nothing open
