"""Tensors as bytes: the Open Inference Protocol's datatypes and numpy's.

Raw form, both transports: row-major, little-endian, no padding. A BYTES element is its length as four little-endian
bytes, then its content. BF16, which numpy lacks, is float32 on this side: rounded to the nearest going out, exact
coming in.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._errors import UnexpectedAnswer, UsageError

# datatype -> dtype of one element in raw form
DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype("<u2"),
}
_BY_DTYPE = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array with its datatype said aloud; only BF16 needs it, all else follows from the array's dtype.

    data      any shape; converted to the datatype
    datatype  "FP32", "BF16", "BYTES", ...
    """

    data: np.ndarray
    datatype: str


@dataclass(frozen=True)
class RawTensor:
    """A tensor as it travels."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    content: bytes


def encode(name: str, value: np.ndarray | Tensor) -> RawTensor:
    """An array as it travels; UsageError if no datatype fits its dtype."""
    datatype = value.datatype if isinstance(value, Tensor) else None
    array = np.asarray(value.data if isinstance(value, Tensor) else value)
    if datatype is None:
        datatype = datatype_of(name, array)
    if datatype == "BYTES":
        content = b"".join(_framed(name, item) for item in array.ravel().tolist())
    elif datatype == "BF16":
        content = _to_bfloat16(array).tobytes()
    elif datatype in DTYPES:
        content = array.astype(DTYPES[datatype], copy=False).tobytes()
    else:
        raise UsageError(f"got datatype {datatype!r}, expected one of {', '.join([*DTYPES, 'BYTES'])}", field=name)
    return RawTensor(name, datatype, array.shape, content)


def datatype_of(name: str, array: np.ndarray) -> str:
    """The datatype an array travels as."""
    if array.dtype.kind in "OSU":
        return "BYTES"
    if array.dtype.name == "bfloat16":  # the ml_dtypes package's
        return "BF16"
    datatype = _BY_DTYPE.get(array.dtype.newbyteorder("<"))
    if datatype is None:
        hint = "convert it, for example with .astype(np.float32)"
        raise UsageError(f"no datatype fits dtype {array.dtype}", field=name, hint=hint)
    return datatype


def decode(raw: RawTensor) -> np.ndarray:
    """The array of a tensor that came in its raw form; owns its memory. UnexpectedAnswer if bytes and shape differ."""
    if raw.datatype == "BYTES":
        return objects(raw.name, list(_unframed(raw.name, raw.content)), raw.shape)
    dtype = _dtype(raw.name, raw.datatype)
    expected = math.prod(raw.shape) * dtype.itemsize
    if len(raw.content) != expected:
        message = f"output has {len(raw.content)} bytes, {raw.datatype} {list(raw.shape)} needs {expected}"
        raise UnexpectedAnswer(message, field=raw.name)
    array = np.frombuffer(raw.content, dtype).reshape(raw.shape)
    return _from_bfloat16(array) if raw.datatype == "BF16" else array.astype(dtype.newbyteorder("="))


def from_elements(name: str, datatype: str, shape: Sequence[int], elements: Sequence[Any]) -> np.ndarray:
    """The array of a tensor that came element by element (JSON `data`, gRPC `contents`)."""
    if datatype == "BYTES":
        return objects(name, [item.encode() if isinstance(item, str) else item for item in elements], shape)
    dtype = np.dtype(np.float32) if datatype == "BF16" else _dtype(name, datatype)
    try:
        return np.array(elements, dtype.newbyteorder("=")).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnexpectedAnswer(f"output does not fill {datatype} {list(shape)}: {error}", field=name) from error


def objects(name: str, items: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    """An object array of bytes."""
    if len(items) != math.prod(shape):
        raise UnexpectedAnswer(f"output has {len(items)} elements, BYTES {list(shape)} needs others", field=name)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def _dtype(name: str, datatype: str) -> np.dtype[Any]:
    if datatype not in DTYPES:
        raise UnexpectedAnswer(f"output has the unknown datatype {datatype!r}", field=name)
    return DTYPES[datatype]


def _framed(name: str, item: object) -> bytes:
    content = item.encode() if isinstance(item, str) else item
    if not isinstance(content, bytes):
        raise UsageError(f"got {type(item).__name__} in a BYTES tensor, expected bytes or str", field=name)
    return struct.pack("<I", len(content)) + content


def _unframed(name: str, content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        start = at + 4
        at = start + int.from_bytes(content[at:start], "little")
        if at > len(content):
            raise UnexpectedAnswer("a BYTES output ends in the middle of an element", field=name)
        yield content[start:at]


def _to_bfloat16(array: np.ndarray) -> np.ndarray:
    """uint16 [same shape]: the upper half of float32, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet_nan = (bits >> 16) | 0x40
    return np.where(np.isnan(array.astype(np.float32)), quiet_nan, rounded).astype("<u2")


def _from_bfloat16(array: np.ndarray) -> np.ndarray:
    return (array.astype(np.uint32) << 16).view(np.float32)
