"""Tensors as JSON numbers and strings: nested or flat lists in, flat lists out."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from services.core.errors import ApiError
from services.core.tensors import DTYPES, Tensor

MAX_DIMENSIONS = 8
_NUMBERS = {int, float, bool, list}  # list: uneven nesting, which numpy refuses in its own words
_KINDS = {"f": "iuf", "i": "iu", "u": "iu", "b": "b"}  # array kind -> kinds of JSON data it may be made from


def from_json(data: Any, datatype: str, shape: list[int], name: str) -> Tensor:
    """A tensor from its elements as JSON. Raises ApiError naming the input."""
    if not isinstance(data, list):
        raise ApiError("invalid_request", f"input {name!r} has no data", field=name, hint="send `data` or raw bytes")
    if datatype == "BYTES":
        flat = np.array(data, dtype=object).ravel()
        if not all(isinstance(item, str) for item in flat):
            raise ApiError("tensor_dtype", f"input {name!r} is BYTES, its data must be strings", field=name)
        values: Tensor = np.array([item.encode() for item in flat], dtype=object)
    else:
        values = _numbers(data, datatype, name)
    if values.size != math.prod(shape):
        raise ApiError(
            "tensor_size",
            f"input {name!r} has {values.size} values, shape {shape} takes {math.prod(shape)}",
            field=name,
        )
    return values.reshape(shape)


def from_nested(data: Any, datatype: str, name: str) -> Tensor:
    """A tensor of numbers from lists nested as its shape is. Raises ApiError naming the input."""
    if not isinstance(data, list):
        raise ApiError("invalid_request", f"input {name!r} must be nested lists", field=name)
    return _numbers(data, datatype, name)


def _numbers(data: list[Any], datatype: str, name: str) -> Tensor:
    dtype = DTYPES[datatype]
    kinds = _kinds_of(data)
    numbers = kinds <= _NUMBERS and kinds != {list}
    try:  # never an array of text: numpy would give every element the room of the longest
        values = np.array(data, dtype=None if numbers else object) if data else np.empty(0, dtype)
    except ValueError:
        raise ApiError("tensor_size", f"input {name!r} has lists of unequal length", field=name) from None
    if dtype.kind in "iu" and kinds == {int} and values.dtype.kind not in "iu":
        values = np.array(data, dtype=object)  # numpy took integers beyond int64 for something else
    elif values.dtype.kind not in _KINDS[dtype.kind]:
        raise _not_numbers(kinds, datatype, name)
    if dtype.kind in "iu" and values.size:
        bounds = np.iinfo(dtype)
        if values.min() < bounds.min or values.max() > bounds.max:
            raise ApiError("value_out_of_range", f"input {name!r} has a value outside {datatype}", field=name)
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite and is refused by the model's own check
        return values.astype(dtype)


def _not_numbers(kinds: set[type], datatype: str, name: str) -> ApiError:
    missing = type(None) in kinds
    code = "value_not_finite" if missing else "value_not_numeric"
    what = "a missing value" if missing else f"data that is not {datatype}"
    return ApiError(code, f"input {name!r} has {what}", field=name)


def _kinds_of(data: list[Any]) -> set[type]:
    """The types of the elements of evenly nested lists; {list} if they are nested too deep for a tensor."""
    kinds = set(map(type, data))
    for _ in range(MAX_DIMENSIONS):
        if kinds != {list}:
            break
        data = list(chain.from_iterable(data))
        kinds = set(map(type, data))
    return kinds


def to_json(tensor: Tensor) -> Any:
    """A tensor's elements, flat, as JSON is written from them."""
    if tensor.dtype.kind == "O":
        return [item.decode() for item in tensor.ravel()]
    return np.ascontiguousarray(tensor).ravel()
