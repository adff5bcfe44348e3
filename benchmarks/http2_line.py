"""gRPC over a bare HTTP/2 connection that costs little: prepared messages out, status and message in.

grpcio's client takes a quarter of a millisecond of CPU a call, more than the servers that are measured with it. This
one does what a measurement needs: one call at a time, its headers in HPACK's table after the first call (as every gRPC
client has them), flow control obeyed, pings answered, and grpc-status read from the trailers.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import cast

import grpc
import hpack

from pressroom.bench_grpc import INFER_METHOD
from pressroom.bench_http import LOST, Answered, Outcome
from services.core.http2 import frames
from services.core.http2.frames import FRAME_HEADER, FrameReader

OPEN_SECONDS = 10.0
_SETTINGS = {2: 0, 4: frames.LARGEST_WINDOW}  # no pushes; an answer of any size at once
_REPLENISH = 2**29  # bytes received on a connection before its window is filled up again
_PREFIX = struct.Struct(">BI")  # of a gRPC message: not compressed, its length
_CODES = {str(code.value[0]).encode(): code.name for code in grpc.StatusCode}


def grpc_message(raw: bytes) -> bytes:
    """A message as it travels, prefix first: what `Http2Line.ask` takes."""
    return _PREFIX.pack(0, len(raw)) + raw


class Http2Line(asyncio.Protocol):
    """One connection, one unary call at a time; the interface of `pressroom.bench_http.HttpLine`."""

    def __init__(self, host: str, port: int, method: str = INFER_METHOD) -> None:
        self._where = (host, port)
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", f"{host}:{port}"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "bench"),
        ]
        encoder = hpack.Encoder()
        self._first, self._later = encoder.encode(fields), encoder.encode(fields)
        self._answered: Answered | None = None
        self._transport: asyncio.Transport | None = None
        self.usable = False

    async def open(self) -> None:
        """Connect, and hear what the server allows. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._reader, self._headers = FrameReader(2**24), _Headers()
        self._reader.opened = True
        self._stream, self._block, self._taken = -1, self._first, 0
        self._window, self._initial, self._largest = frames.INITIAL_WINDOW, frames.INITIAL_WINDOW, 2**14
        self._settled: asyncio.Future[None] = loop.create_future()
        await loop.create_connection(lambda: self, *self._where)
        async with asyncio.timeout(OPEN_SECONDS):
            await self._settled
        self.usable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        settings = b"".join(struct.pack(">HI", key, value) for key, value in _SETTINGS.items())
        more = frames.window_update(0, frames.LARGEST_WINDOW - frames.INITIAL_WINDOW)
        self._transport.write(frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, settings) + more)

    def ask(self, request: bytes, answered: Answered) -> None:
        """Send a message made by `grpc_message`; `answered` is called once, from the event loop."""
        self._answered = answered
        if not self.usable:
            self._finish(Outcome(LOST, b"", b""))
            return
        self._stream += 2
        self._message: list[bytes] = []
        self._status: dict[bytes, bytes] = {}
        self._room, self._left = self._initial, memoryview(request)
        block, self._block = self._block, self._later
        self._send([frames.frame(frames.HEADERS, frames.END_HEADERS, self._stream, block)])

    def close(self) -> None:
        """Drop the connection; a call on its way is not answered any more."""
        self.usable, self._answered = False, None
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _send(self, parts: list[bytes | memoryview]) -> None:
        """As much of the message as the windows allow, behind `parts`."""
        while size := min(len(self._left), self._largest, self._room, self._window):
            part, self._left = self._left[:size], self._left[size:]
            self._room -= size
            self._window -= size
            flags = 0 if self._left else frames.END_STREAM
            parts += (frames.header(frames.DATA, flags, self._stream, size), part)
        if parts:
            self._write(b"".join(parts))

    def data_received(self, data: bytes) -> None:
        for kind, flags, stream, payload in self._reader.feed(data):
            if kind == frames.DATA:
                self._take(stream, flags, payload)
            elif kind == frames.HEADERS:
                self._read_headers(stream, flags, payload)
            else:
                self._control(kind, flags, stream, payload)

    def _take(self, stream: int, flags: int, payload: bytes) -> None:
        self._taken += len(payload) + FRAME_HEADER
        if self._taken > _REPLENISH:
            self._write(frames.window_update(0, self._taken))
            self._taken = 0
        if stream == self._stream:
            self._message.append(frames.without_padding(flags, payload))

    def _read_headers(self, stream: int, flags: int, payload: bytes) -> None:
        fields = self._headers.read(payload)
        if stream != self._stream:
            return
        self._status |= fields
        if flags & frames.END_STREAM:
            self._finish(self._outcome())

    def _outcome(self) -> Outcome:
        status = self._status.get(b"grpc-status")
        if status == b"0":
            return Outcome("", b"", b"".join(self._message)[_PREFIX.size :])
        said = self._status.get(b"grpc-message", b"")
        return Outcome("no grpc-status" if status is None else _CODES.get(status, "UNKNOWN"), b"", said)

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.SETTINGS and not flags & frames.ACK:
            told = frames.read_settings(payload)
            self._initial = told.get(frames.Setting.INITIAL_WINDOW_SIZE, self._initial)
            self._largest = told.get(frames.Setting.MAX_FRAME_SIZE, self._largest)
            self._write(frames.frame(frames.SETTINGS, frames.ACK, 0, b""))
            if not self._settled.done():
                self._settled.set_result(None)
        elif kind == frames.PING and not flags & frames.ACK:
            self._write(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.WINDOW_UPDATE:
            self._widen(stream, int.from_bytes(payload, "big"))
        elif kind == frames.RST_STREAM and stream == self._stream:
            self._finish(Outcome("stream reset", b"", b""))
        elif kind == frames.GOAWAY:
            self.usable = False

    def _widen(self, stream: int, size: int) -> None:
        if stream == 0:
            self._window += size
        elif stream == self._stream:
            self._room += size
        if self._answered is not None:
            self._send([])

    def _finish(self, outcome: Outcome) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(outcome)

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if not self._settled.done():
            self._settled.set_exception(OSError(f"connection lost: {exc}"))
        self._finish(Outcome(LOST, b"", str(exc or "").encode()))


class _Headers:
    """Header blocks of one connection: one that left HPACK's table alone means the same until another changes it."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self._known: dict[bytes, dict[bytes, bytes]] = {}

    def read(self, block: bytes) -> dict[bytes, bytes]:
        known = self._known.get(block)
        if known is not None:
            return known
        before = self._newest()
        fields = {bytes(name): bytes(value) for name, value in self._decoder.decode(block, raw=True)}
        if self._newest() is before:
            self._known[block] = fields
        else:
            self._known.clear()
        return fields

    def _newest(self) -> Sequence[bytes] | None:
        entries = self._decoder.header_table.dynamic_entries
        return entries[0] if entries else None
