"""Header blocks: what a caller's says about its call, and the blocks of answers.

Callers repeat their headers, and HPACK then sends nothing but indices into a table both sides keep. Such a block is
decoded once: it means the same until another block changes the table.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import quote

import hpack

from services.core.http2.frames import Code, Http2Error

MAX_LIST_BYTES = 64 * 1024  # of one header block, decoded
MAX_METADATA_BYTES = 16 * 1024  # of one call; more is refused
KEPT_BLOCKS = 64

Metadata = tuple[tuple[str, str | bytes], ...]

_TIMEOUT = re.compile(r"(\d{1,8})([HMSmun])")
_SECONDS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_OURS = frozenset({"te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "content-length"})
_STATUS_200 = b"\x88"
_CONTENT_TYPE = b"\x0f\x10"  # literal that is not indexed, name 31 of the static table
START = _STATUS_200 + _CONTENT_TYPE + b"\x10application/grpc"


@dataclass(frozen=True)
class Head:
    """What the headers of a call say.

    method               `/package.Service/Method`
    timeout              seconds the caller gives, or None
    encoding             of compressed messages
    invocation_metadata  the caller's own; `-bin` values as bytes
    http_status          other than 200: not a gRPC call at all, to be answered so
    size                 bytes of the metadata as HTTP/2 counts them
    """

    method: str
    timeout: float | None
    encoding: str
    invocation_metadata: Metadata
    http_status: int
    size: int

    @cached_property
    def texts(self) -> dict[str, str]:
        """The metadata that is text; of a repeated key, the last."""
        return {key: value for key, value in self.invocation_metadata if isinstance(value, str)}


class HeaderReader:
    """Decodes one connection's header blocks, in the order they came."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(MAX_LIST_BYTES)
        self._known: dict[bytes, Head] = {}

    def read(self, block: bytes) -> Head:
        """Raises Http2Error: after a block that cannot be read, no later one can be."""
        head = self._known.get(block)
        if head is not None:
            return head
        try:
            fields = [(bytes(name), bytes(value)) for name, value in self._decoder.decode(block, raw=True)]
        except hpack.OversizedHeaderListError:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "headers beyond all measure") from None
        except (hpack.HPACKError, IndexError, ValueError):
            raise Http2Error(Code.COMPRESSION_ERROR, "a header block that cannot be decoded") from None
        head = _read_head(fields)
        if _only_indices(block):
            if len(self._known) >= KEPT_BLOCKS:
                self._known.clear()
            self._known[block] = head
        else:
            self._known.clear()  # the table may have changed
        return head


def _only_indices(block: bytes) -> bool:
    """Whether every byte is an index of its own, which leaves the table as it is."""
    return bool(block) and min(block) >= 0x80 and 0xFF not in block


def _read_head(fields: list[tuple[bytes, bytes]]) -> Head:
    known = {name: value for name, value in fields if name.startswith(b":") or name.decode("latin-1") in _OURS}
    timeout = _TIMEOUT.fullmatch(known.get(b"grpc-timeout", b"").decode("latin-1"))
    return Head(
        method=known.get(b":path", b"").decode("latin-1"),
        timeout=None if timeout is None else int(timeout[1]) * _SECONDS[timeout[2]],
        encoding=known.get(b"grpc-encoding", b"identity").decode("latin-1"),
        invocation_metadata=tuple(_metadata(fields)),
        http_status=_http_status(known),
        size=sum(len(name) + len(value) + 32 for name, value in fields),
    )


def _http_status(known: dict[bytes, bytes]) -> int:
    if known.get(b":method") != b"POST":
        return 405
    return 200 if known.get(b"content-type", b"").startswith(b"application/grpc") else 415


def _metadata(fields: list[tuple[bytes, bytes]]) -> Iterable[tuple[str, str | bytes]]:
    for raw_name, raw in fields:
        name = raw_name.decode("latin-1")
        if name.startswith(":") or name in _OURS:
            continue
        if not name.endswith("-bin"):
            yield name, raw.decode("latin-1")
            continue
        for part in raw.split(b","):
            yield name, _from_base64(part)


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:
        return b""


def status_fields(code: int, message: str, metadata: Iterable[tuple[str, str | bytes]]) -> bytes:
    """The block of trailers; after START, that of an answer without a message."""
    fields = [_status(code)]
    if message:
        fields.append(_literal("grpc-message", quote(message, safe=" !#$&'()*+,/:;=?@[]\"<>\\^`{|}")))
    fields += [_literal(name, value) for name, value in metadata]
    return b"".join(fields)


@lru_cache(maxsize=32)
def _status(code: int) -> bytes:
    return _literal("grpc-status", str(code))


def http_fields(status: int) -> bytes:
    """The block of a plain HTTP status."""
    return b"\x08" + _text(str(status).encode())


def _literal(name: str, value: str | bytes) -> bytes:
    """A field that no table remembers."""
    raw = base64.b64encode(value) if isinstance(value, bytes) else value.encode("ascii", "replace")
    return _name(name) + _text(raw)


@lru_cache(maxsize=64)
def _name(name: str) -> bytes:
    return b"\x00" + _text(name.encode("ascii"))


def _text(raw: bytes) -> bytes:
    """A string as it is, its length as an integer of seven bits."""
    left = len(raw)
    if left < 0x7F:
        return bytes((left,)) + raw
    length, left = bytearray(b"\x7f"), left - 0x7F
    while left >= 0x80:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes(length) + raw
