"""A caller that speaks HTTP/2 frame by frame to a connection without a network, and may break every rule."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, NamedTuple

import hpack

from services.core.http2 import frames
from services.core.http2.connection import Connection, Limits
from services.core.http2.server import Http2Server

METHOD = "/test.Test/Echo"
LIMITS = Limits(max_message=100_000, max_streams=4, upload_seconds=30.0)


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


class Wire(asyncio.Transport):
    """What the server writes, and whether it has closed."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class Peer:
    """One connection to a server, opened as a well-behaved caller does; its first frames are already read."""

    def __init__(self, server: Http2Server, *, opened: bool = True) -> None:
        self.wire = Wire()
        self.connection: Connection = server._connect()
        self.connection.connection_made(self.wire)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        if opened:
            self.send(frames.PREFACE + frames.settings({}))
            self.read()

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def call(self, stream: int, message: bytes = b"", *, flags: int = frames.END_STREAM, **more: str) -> None:
        """A whole unary call, or its beginning without END_STREAM."""
        self.headers(stream, **more)
        self.send(frames.frame(frames.DATA, flags, stream, enclosed(message)))

    def headers(self, stream: int, *, flags: int = frames.END_HEADERS, **more: str) -> None:
        self.send(frames.frame(frames.HEADERS, flags, stream, self.block(**more)))

    def block(self, **more: str) -> bytes:
        fields = {":method": "POST", ":scheme": "http", ":path": METHOD, "content-type": "application/grpc"}
        fields |= {name.replace("_", "-") if name[0] != ":" else name: value for name, value in more.items()}
        return self.encoder.encode(list(fields.items()))

    def read(self) -> list[Frame]:
        """The frames that have come since the last look."""
        self.connection._flush()  # what it would send at the end of this pass of the loop
        data, found = b"".join(self.wire.writes), []
        self.wire.writes.clear()
        while data:
            length = int.from_bytes(data[:3], "big")
            found.append(Frame(data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + length]))
            data = data[9 + length :]
        return found

    async def answer(self) -> tuple[bytes, dict[str, str]]:
        """The next answer: its messages' bytes with their prefixes, and its trailers."""
        body = b""
        async with asyncio.timeout(10):
            while True:
                for kind, flags, _, payload in self.read():
                    if kind == frames.DATA:
                        body += payload
                    if kind == frames.HEADERS:
                        fields = dict(self.decoder.decode(payload))
                        if flags & frames.END_STREAM:
                            return body, fields
                await asyncio.sleep(0)

    def goaway(self) -> tuple[int, frames.Code]:
        """The last stream the server took, and why it ends the connection."""
        (found,) = [frame for frame in self.read() if frame.kind == frames.GOAWAY]
        last, code = struct.unpack(">II", found.payload[:8])
        return last, frames.Code(code)


def enclosed(message: bytes, *, compressed: bool = False) -> bytes:
    """A message with its prefix."""
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message
