"""HTTP/2 frames (RFC 9113, sections 4 and 6): their numbers, and the bytes of those a server writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER = 9  # bytes
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20

INITIAL_WINDOW = 65_535  # bytes a side may send before it is told otherwise
LARGEST_WINDOW = 2**31 - 1
SMALLEST_MAX_FRAME, LARGEST_MAX_FRAME = 16_384, 2**24 - 1

_HEADER = struct.Struct(">BHBBI")


class Setting(IntEnum):
    """Identifiers of SETTINGS this server sends or reads."""

    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Code(IntEnum):
    """Error codes of RST_STREAM and GOAWAY."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """The peer broke the protocol: the connection ends with this code."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


class FrameReader:
    """Cuts what a client sends into frames; `opened` once its preface has come.

    largest  bytes of a frame's payload
    """

    def __init__(self, largest: int) -> None:
        self.opened = False
        self._largest = largest
        self._left = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of every frame that is complete now. Raises Http2Error."""
        if self._left:
            data = self._left + data
        self._left = b""
        at, end = 0, len(data)
        if not self.opened:
            at = self._open(data)
        while end - at >= FRAME_HEADER:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > self._largest:
                raise Http2Error(Code.FRAME_SIZE_ERROR, "a frame beyond the size allowed")
            begin = at + FRAME_HEADER
            if end - begin < length:
                break
            kind, flags = data[at + 3], data[at + 4]
            stream = int.from_bytes(data[at + 5 : begin], "big") & 0x7FFFFFFF
            at = begin + length
            yield kind, flags, stream, data[begin:at]
        self._left = data[at:] if self.opened else data

    def _open(self, data: bytes) -> int:
        """Where the frames begin; the end if the preface is not complete."""
        if not data.startswith(PREFACE[: len(data)]):
            raise Http2Error(Code.PROTOCOL_ERROR, "no HTTP/2 preface")
        self.opened = len(data) >= len(PREFACE)
        return len(PREFACE) if self.opened else len(data)


def header(kind: int, flags: int, stream: int, length: int) -> bytes:
    """The nine bytes in front of a payload."""
    return _HEADER.pack(length >> 16, length & 0xFFFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One whole frame."""
    return header(kind, flags, stream, len(payload)) + payload


def settings(values: dict[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


def window_update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def reset(stream: int, code: Code) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def goaway(last_stream: int, code: Code, why: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_stream, code) + why.encode())


def read_settings(payload: bytes) -> dict[int, int]:
    """The pairs of a SETTINGS frame, checked. Raises Http2Error."""
    if len(payload) % 6:
        raise Http2Error(Code.FRAME_SIZE_ERROR, "SETTINGS of a size that is no multiple of 6")
    values = dict(struct.iter_unpack(">HI", payload))
    if values.get(Setting.INITIAL_WINDOW_SIZE, 0) > LARGEST_WINDOW:
        raise Http2Error(Code.FLOW_CONTROL_ERROR, "an initial window beyond 2^31 - 1")
    if not SMALLEST_MAX_FRAME <= values.get(Setting.MAX_FRAME_SIZE, SMALLEST_MAX_FRAME) <= LARGEST_MAX_FRAME:
        raise Http2Error(Code.PROTOCOL_ERROR, "a maximal frame size out of range")
    return values


def without_padding(flags: int, payload: bytes) -> bytes:
    """A DATA or HEADERS payload without what pads it. Raises Http2Error."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(Code.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - payload[0]]
