"""ModelInferResponse as bytes, written directly: the one message whose making showed in a profile (a tenth of a call).

Only the fields this server fills are known here, by their numbers in proto/open_inference.proto; tests read the bytes
back with protobuf.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

VARINT, LENGTH = 0, 2  # wire types
_DOUBLE = struct.Struct("<d")
_DOUBLE_PARAM = 4 << 3 | 1


def varint(value: int) -> bytes:
    """A number >= 0, or a negative one as 64 bits."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= 2**64 - 1
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def block(field: int, payload: bytes) -> bytes:
    """A field of bytes: text, a message, packed numbers."""
    size = len(payload)
    if size < 0x80:
        return bytes((field << 3 | LENGTH, size)) + payload
    return bytes((field << 3 | LENGTH,)) + varint(size) + payload


@lru_cache(maxsize=256)
def text(field: int, value: str) -> bytes:
    """A field of text that many answers share."""
    return block(field, value.encode())


def parameter(name: str, value: bool | int | float | str) -> bytes:
    """An entry of `parameters`."""
    if isinstance(value, float):
        return _before_double(name) + _DOUBLE.pack(value)
    if isinstance(value, int):
        return _whole_number(name, value, isinstance(value, bool))
    return block(4, text(1, name) + block(2, block(3, value.encode())))


@lru_cache(maxsize=256)
def _before_double(name: str) -> bytes:
    """An entry of `parameters` as far as the eight bytes of its number, which is most of every answer's."""
    entry = block(4, text(1, name) + block(2, bytes((_DOUBLE_PARAM, *bytes(_DOUBLE.size)))))
    return entry[: -_DOUBLE.size]


@lru_cache(maxsize=256)
def _whole_number(name: str, value: int, truth: bool) -> bytes:
    choice = bytes((1 << 3 | VARINT, value)) if truth else bytes((2 << 3 | VARINT,)) + varint(value)
    return block(4, text(1, name) + block(2, choice))


@lru_cache(maxsize=256)
def output(name: str, datatype: str, shape: tuple[int, ...]) -> bytes:
    """An entry of `outputs`."""
    sizes = b"".join(varint(size) for size in shape)
    return block(5, text(1, name) + text(2, datatype) + (block(3, sizes) if sizes else b""))


def response(
    model: str,
    version: str,
    request_id: str,
    parameters: Mapping[str, bool | int | float | str],
    outputs: Iterable[tuple[str, str, tuple[int, ...], bytes]],
) -> bytes:
    """A whole ModelInferResponse; outputs: name, datatype, shape and raw contents."""
    parts = [text(1, model), text(2, version)]
    if request_id:
        parts.append(block(3, request_id.encode()))
    parts += [parameter(name, value) for name, value in parameters.items()]
    contents = []
    for name, datatype, shape, raw in outputs:
        parts.append(output(name, datatype, shape))
        contents.append(block(6, raw))
    return b"".join(parts + contents)


def stream_response(raw: bytes) -> bytes:
    """A ModelStreamInferResponse around a ModelInferResponse."""
    return block(2, raw)
