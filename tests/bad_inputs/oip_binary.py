"""Bad inference requests whose tensors follow the JSON header as raw bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import etth1
import numpy as np

from .case import INFER, INFER_CARD, LENGTH, HttpCase, infer, tensor

_RAW = etth1.history().tobytes()
_CLOCK = etth1.clock().tobytes()


def _entry(size: Any, **changed: Any) -> dict[str, Any]:
    """A `history` input whose data is behind the header."""
    entry = tensor(parameters={"binary_data_size": size}, **changed)
    del entry["data"]
    return entry


def _binary(header: dict[str, Any], *parts: bytes, length: int | str | None = None) -> dict[str, Any]:
    """Body and headers of a request in two parts; `length` is what the header field says of the first."""
    text = json.dumps(header).encode()
    said = len(text) if length is None else length
    return {"body": b"".join((text, *parts)), "headers": {LENGTH: str(said)}}


def _size(name: str, header: dict[str, Any], *parts: bytes, field: str = "history") -> HttpCase:
    return HttpCase(name, INFER, **_binary(header, *parts), status=422, code="tensor_size", field=field)


def _told(name: str, length: int | str) -> HttpCase:
    """A good body whose header length cannot be."""
    whole = _binary(infer(_entry(len(_RAW))), _RAW, length=length)
    return HttpCase(name, INFER, **whole, status=400, code="invalid_json", field=LENGTH)


def _cut(name: str, length: int) -> HttpCase:
    """A good body whose header length cuts the JSON at a wrong place."""
    whole = _binary(infer(_entry(len(_RAW))), _RAW, length=length)
    return HttpCase(name, INFER, **whole, status=400, code="invalid_json")


def _refused(name: str, code: str, field: str, entry: dict[str, Any], raw: bytes, path: str = INFER) -> HttpCase:
    return HttpCase(name, path, **_binary(infer(entry), raw), status=422, code=code, field=field)


def _spoiled(value: float, *place: int) -> bytes:
    array = etth1.history().copy()
    array[place] = value
    return array.tobytes()


def _element(text: bytes, said: int | None = None) -> bytes:
    return struct.pack("<I", len(text) if said is None else said) + text


_BYTES = {"name": "request", "datatype": "BYTES", "shape": [1]}


def _element_case(name: str, raw: bytes) -> HttpCase:
    entry = _BYTES | {"parameters": {"binary_data_size": len(raw)}}
    return _size(name, infer(entry), raw, field="request")


CASES = (
    # what the header field says
    _told("a header length beyond the body", 99_999),
    _told("a header length one beyond", len(json.dumps(infer(_entry(len(_RAW))))) + len(_RAW) + 1),
    _told("a negative header length", -1),
    _told("a header length in words", "all"),
    _told("a header length with a point", "120.0"),
    _told("a header length in hexadecimal", "78h"),
    _told("a header length with a sign", "+120"),
    _told("two header lengths in one", "120, 120"),
    _told("an empty header length", ""),
    _cut("a header length of zero", 0),
    _cut("a header length that stops early", 40),
    _cut("a header length that takes in raw bytes", len(json.dumps(infer(_entry(len(_RAW))))) + 8),
    # what the entry says
    _size("one byte fewer than there are", infer(_entry(len(_RAW) - 1)), _RAW),
    _size("one byte more than there are", infer(_entry(len(_RAW) + 1)), _RAW),
    _size("raw bytes nobody sent", infer(_entry(len(_RAW)))),
    _size("a negative number of bytes", infer(_entry(-2688)), _RAW),
    _size("a size beyond 64 bits", infer(_entry(10**30)), _RAW),
    _size("a size in quotes", infer(_entry("2688")), _RAW),
    _size("a size with a point", infer(_entry(2688.0)), _RAW),
    _size("true for a size", infer(_entry(True)), _RAW),
    _size("a list for a size", infer(_entry([2688])), _RAW),
    _size("a size of zero", infer(_entry(0)), b""),
    _size("bytes left over", infer(_entry(len(_RAW))), _RAW, b"\0" * 16, field="inputs"),
    _size("raw bytes that no input claims", infer(tensor()), _RAW, field="inputs"),
    _size("half a row", infer(_entry(len(_RAW) // 2)), _RAW[: len(_RAW) // 2]),
    _size("float64 bytes said to be FP32", infer(_entry(2 * len(_RAW))), etth1.history().astype(np.float64).tobytes()),
    _size("two rows said to be one", infer(_entry(2 * len(_RAW))), _RAW * 2),
    _size(
        "stamps that take the history's bytes",
        infer(_entry(len(_RAW)), {"name": "timestamps", "datatype": "INT64", "shape": [1, 96],
                                  "parameters": {"binary_data_size": len(_CLOCK)}}),
        _RAW, _CLOCK[:-8], field="timestamps",
    ),
    # declarations
    _refused("raw and FP64", "tensor_dtype", "history", _entry(2 * len(_RAW), datatype="FP64"), _RAW * 2),
    _refused("raw and no data type", "tensor_dtype", "history", _entry(len(_RAW), datatype=None), _RAW),
    _refused("raw and a negative shape", "tensor_shape", "history", _entry(len(_RAW), shape=[-1, 96, 7]), _RAW),
    _refused("raw and columns first", "tensor_shape", "history", _entry(len(_RAW), shape=[1, 7, 96]), _RAW),
    _refused("raw and no rows", "empty_batch", "history", _entry(0, shape=[0, 96, 7]), b""),
    _refused("raw and no steps", "history_too_short", "history", _entry(0, shape=[1, 0, 7]), b""),
    _refused("raw and a step short", "history_too_short", "history", _entry(2660, shape=[1, 95, 7]), _RAW[28:]),
    _refused("raw and an unknown name", "tensor_unexpected", "inputs", _entry(len(_RAW), name="input_1"), _RAW),
    _refused("raw rows over the limit", "too_many_rows", "history", _entry(1025 * 28, shape=[1025, 1, 7]),
             b"\0" * (1025 * 28)),
    # values
    _refused("raw NaN", "value_not_finite", "history[0, 3, 1]", _entry(len(_RAW)), _spoiled(np.nan, 0, 3, 1)),
    _refused("raw infinity", "value_not_finite", "history[0, 0, 0]", _entry(len(_RAW)), _spoiled(np.inf, 0, 0, 0)),
    _refused("raw minus infinity", "value_not_finite", "history[0, 95, 6]", _entry(len(_RAW)),
             _spoiled(-np.inf, 0, 95, 6), INFER_CARD),
    _refused("all bits set", "value_not_finite", "history[0, 0, 0]", _entry(len(_RAW)), b"\xff" * len(_RAW)),
    _refused("raw and huge", "value_out_of_range", "history", _entry(len(_RAW)), _spoiled(3e38, 0, 5, 5), INFER_CARD),
    _refused("raw in big-endian order", "value_out_of_range", "history", _entry(len(_RAW)),
             np.full((1, 96, 7), 3e38, "<f4").tobytes()),
    # BYTES elements
    _element_case("an element without its length", b"{}"),
    _element_case("an element said to be longer", _element(b"{}", 200)),
    _element_case("an element said to be shorter", _element(b"{} ", 2)),
    _element_case("an element of four gigabytes", _element(b"{}", 2**32 - 1)),
    _element_case("two elements for one", _element(b"{}") * 2),
    _element_case("half a length", b"\x02\x00"),
)  # fmt: skip
