"""One HTTP/2 connection of a gRPC server (RFC 9113): frames in, calls out, flow control both ways.

Whatever a caller may repeat at no cost to itself (pings, settings, resets, empty frames) is counted, and a connection
that has more of it than work is told to calm down and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from services.core.http2 import frames
from services.core.http2.flow import Sender
from services.core.http2.frames import Code, FrameReader, Http2Error, Setting
from services.core.http2.headers import MAX_LIST_BYTES, HeaderReader, http_fields
from services.core.http2.rpc import Rpc

WINDOW = 2**20  # bytes a call may have under way to us
CONNECTION_WINDOW = 2**24
MAX_FRAME = 2**18
SWEEP_SECONDS = 1.0
HEAD_SECONDS = 10.0  # for the preface, and for a header block in several frames
NUISANCES = 2000  # frames that cost their sender nothing, beyond those that go with work; every second forgives a tenth


@dataclass(frozen=True, kw_only=True)
class Limits:
    """max_message: bytes; max_streams: calls at once on a connection; upload_seconds: for a call's message to come."""

    max_message: int
    max_streams: int
    upload_seconds: float


class Connection(Sender):
    """Serves calls until the peer goes away or `drain` has let the last one finish.

    begin  gives a new call its handler, or refuses it
    """

    def __init__(self, begin: Callable[[Rpc], None], limits: Limits, others: set[Connection]) -> None:
        super().__init__()
        self.limits = limits
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self._begin = begin
        self._others = others
        self._frames = FrameReader(MAX_FRAME)
        self._headers = HeaderReader()
        self._calls: dict[int, Rpc] = {}
        self._last_stream = 0  # that was taken
        self._highest_stream = 0  # that the peer has used
        self._block: tuple[int, int, bytes] | None = None  # stream, flags and header block that goes on
        self._initial_window = frames.INITIAL_WINDOW  # of a new call, for what we send
        self._owed = 0  # bytes received and not yet given back to the connection's window
        self._nuisances = 0
        self._draining = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._since = perf_counter()  # of the preface, or of an unfinished header block

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            transport.close()
            return
        self._transport = transport  # type: ignore[assignment]
        self._others.add(self)
        ours = {
            Setting.MAX_CONCURRENT_STREAMS: self.limits.max_streams,
            Setting.INITIAL_WINDOW_SIZE: WINDOW,
            Setting.MAX_FRAME_SIZE: MAX_FRAME,
            Setting.MAX_HEADER_LIST_SIZE: MAX_LIST_BYTES,
        }
        more = CONNECTION_WINDOW - frames.INITIAL_WINDOW
        self.write(frames.settings(ours) + frames.window_update(0, more))
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._others.discard(self)
        self.closed.set_result(None)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for call in list(self._calls.values()):
            call.left()
        self._calls.clear()
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        try:
            for kind, flags, stream, payload in self._frames.feed(data):
                self._handle(kind, flags, stream, payload)
                if self._transport is None or self._transport.is_closing():
                    return
        except Http2Error as fault:
            self._end(fault.code, fault.why)

    # --- what calls use

    def consumed(self, call: Rpc, size: int) -> None:
        """Give room back to a call whose message is being read."""
        if size and call.stream in self._calls:
            self.write(frames.window_update(call.stream, size))

    def finished(self, call: Rpc) -> None:
        """Everything was sent to a call."""
        if self._calls.pop(call.stream, None) is None:
            return
        if not call.complete:
            self.write(frames.reset(call.stream, Code.NO_ERROR))  # nobody reads what the caller still sends
        elif self._nuisances:
            self._nuisances -= 1  # work pays for some
        if self._draining and not self._calls:
            self._close()

    # --- ending

    def drain(self) -> None:
        """Take no new call; close when the last one is finished."""
        if self._draining:
            return
        self._draining = True
        self.write(frames.goaway(self._last_stream, Code.NO_ERROR))
        if not self._calls:
            self._close()

    def abandon(self) -> None:
        """Cancel what still runs and close."""
        for call in list(self._calls.values()):
            call.left()
        self._close()

    def _end(self, code: Code, why: str) -> None:
        self.write(frames.goaway(self._last_stream, code, why))
        self.abandon()

    def _sweep(self) -> None:
        """Once a second: whoever is late with a preface, a header block or a message."""
        now = perf_counter()
        if (not self._frames.opened or self._block is not None) and now - self._since > HEAD_SECONDS:
            self._end(Code.ENHANCE_YOUR_CALM, "a preface or header block that does not end")
            return
        self._nuisances = max(0, self._nuisances - NUISANCES // 10)
        for call in list(self._calls.values()):
            call.sweep(now)
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)

    # --- frames

    def _handle(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or stream != self._block[0]):
            raise Http2Error(Code.PROTOCOL_ERROR, "a header block was interrupted")
        if kind == frames.DATA:
            self._on_data(flags, stream, payload)
        elif kind == frames.HEADERS:
            self._on_headers(flags, stream, payload)
        elif kind == frames.WINDOW_UPDATE:
            self._on_window_update(stream, payload)
        else:
            handler = _OTHERS.get(kind)
            if handler is not None:  # frames of unknown kinds are to be ignored
                self._nuisance()
                handler(self, flags, stream, payload)

    def _nuisance(self) -> None:
        self._nuisances += 1
        if self._nuisances > NUISANCES:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def _on_data(self, flags: int, stream: int, payload: bytes) -> None:
        if not 0 < stream <= self._highest_stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "DATA on a stream that is not open")
        self._owed += len(payload)
        if self._owed > CONNECTION_WINDOW // 2:
            self.write(frames.window_update(0, self._owed))
            self._owed = 0
        call = self._calls.get(stream)
        if call is None or call.complete:
            return  # it was finished or reset while this was on its way
        if not payload and not flags & frames.END_STREAM:
            self._nuisance()
        call.received(frames.without_padding(flags, payload) if flags & frames.PADDED else payload, len(payload))
        if flags & frames.END_STREAM and stream in self._calls:
            call.ended()

    def _on_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if flags & frames.PADDED:
            payload = frames.without_padding(flags, payload)
        if flags & frames.PRIORITIZED:
            payload = payload[5:]
        if not flags & frames.END_HEADERS:
            self._block, self._since = (stream, flags, payload), perf_counter()
            return
        self._on_block(flags, stream, payload)

    def _on_continuation(self, flags: int, stream: int, payload: bytes) -> None:
        if self._block is None:
            raise Http2Error(Code.PROTOCOL_ERROR, "CONTINUATION of nothing")
        _, first, begun = self._block
        block = begun + payload
        if len(block) > MAX_LIST_BYTES:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "headers beyond all measure")
        if not flags & frames.END_HEADERS:
            self._block = (stream, first, block)
            return
        self._block = None
        self._on_block(first, stream, block)

    def _on_block(self, flags: int, stream: int, block: bytes) -> None:
        head = self._headers.read(block)
        call = self._calls.get(stream)
        if call is not None:  # trailers: nothing in them is of use
            if not flags & frames.END_STREAM or call.complete:
                raise Http2Error(Code.PROTOCOL_ERROR, "a second header block that ends nothing")
            call.ended()
            return
        if stream <= self._highest_stream:
            self._nuisance()  # of a call that was finished while they were on their way
            return
        if not stream % 2:
            raise Http2Error(Code.PROTOCOL_ERROR, "a caller's stream has an odd number")
        self._highest_stream = stream
        if self._draining:  # its number lies beyond the one the peer was told, who may send it elsewhere
            return
        self._last_stream = stream
        if len(self._calls) >= self.limits.max_streams:
            self._nuisance()
            self.write(frames.reset(stream, Code.REFUSED_STREAM))
            return
        if head.http_status != 200:
            self._nuisance()
            fields = http_fields(head.http_status)
            flags = frames.END_HEADERS | frames.END_STREAM
            self.write(frames.frame(frames.HEADERS, flags, stream, fields))
            return
        call = self._calls[stream] = Rpc(self, stream, head, self._initial_window)
        self._begin(call)
        if flags & frames.END_STREAM and stream in self._calls:
            call.ended()

    def _on_window_update(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "WINDOW_UPDATE has four bytes")
        size = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if stream == 0:
            self.window += size
            window = self.window
        else:
            call = self._calls.get(stream)
            if call is None:
                return
            call.window += size
            window = call.window
        if size == 0 or window > frames.LARGEST_WINDOW:
            raise Http2Error(Code.FLOW_CONTROL_ERROR, "a window update by nothing, or beyond all measure")
        self._wake()

    def _on_settings(self, flags: int, stream: int, payload: bytes) -> None:
        if stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "SETTINGS of a stream")
        if flags & frames.ACK:
            return
        values = frames.read_settings(payload)
        self.max_frame = values.get(Setting.MAX_FRAME_SIZE, self.max_frame)
        if Setting.INITIAL_WINDOW_SIZE in values:
            difference = values[Setting.INITIAL_WINDOW_SIZE] - self._initial_window
            self._initial_window += difference
            for call in self._calls.values():
                call.window += difference
        self.write(frames.frame(frames.SETTINGS, frames.ACK, 0, b""))
        self._wake()

    def _on_ping(self, flags: int, stream: int, payload: bytes) -> None:
        if stream or len(payload) != 8:
            raise Http2Error(Code.PROTOCOL_ERROR, "PING has eight bytes and no stream")
        if not flags & frames.ACK:
            self.write(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_reset(self, flags: int, stream: int, payload: bytes) -> None:
        if not 0 < stream <= self._highest_stream or len(payload) != 4:
            raise Http2Error(Code.PROTOCOL_ERROR, "RST_STREAM has four bytes and a stream")
        call = self._calls.pop(stream, None)
        if call is not None:
            call.left()
            if self._draining and not self._calls:
                self._close()

    def _on_push(self, flags: int, stream: int, payload: bytes) -> None:
        raise Http2Error(Code.PROTOCOL_ERROR, "callers push nothing")


_OTHERS: dict[int, Callable[[Connection, int, int, bytes], None]] = {
    frames.SETTINGS: Connection._on_settings,
    frames.PING: Connection._on_ping,
    frames.RST_STREAM: Connection._on_reset,
    frames.CONTINUATION: Connection._on_continuation,
    frames.PUSH_PROMISE: Connection._on_push,
    frames.PRIORITY: lambda *_: None,
    frames.GOAWAY: lambda *_: None,
}
