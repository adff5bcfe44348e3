"""Request and response bodies of the protocol's REST form: pure JSON, or a JSON header followed by raw tensors.

    Inference-Header-Content-Length: n
    <n bytes of JSON><raw bytes of each input that has parameters.binary_data_size, in order>

Raw tensors are little-endian and row-major; BYTES elements carry a 4-byte length in front.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import orjson

from services.core.errors import ApiError
from services.core.http.content import read_json_object
from services.core.http.exchange import Response, json_response
from services.core.oip.inference import Parameters
from services.core.oip.json_data import MAX_DIMENSIONS, from_json, to_json
from services.core.oip.layout import InferRequest, Layout, Layouts
from services.core.tensors import DTYPES, Tensor, Tensors, dtype_name

MAX_ELEMENTS = 2**48  # numpy refuses to shape even an empty array beyond its address space
HEADER_LENGTH = b"inference-header-content-length"


def decode_request(body: bytes, header_length: bytes | None) -> InferRequest:
    """Read a request body. Raises ApiError naming the input and what is wrong with it."""
    length = _header_length(header_length, len(body))
    return _LAYOUTS.read(body, length)


def layout_in(header: bytes, size: int) -> Layout | None:
    """The layout of a body of so many bytes with this JSON header, if one of the same was read before."""
    return _LAYOUTS.find(header, size)


def _decode(body: bytes, length: int) -> InferRequest:
    document = read_json_object(body[:length] if length < len(body) else body)
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise ApiError("invalid_request", "inputs must be a non-empty list", field="inputs")
    raw = memoryview(body)[length:]
    tensors: Tensors = {}
    for index, entry in enumerate(inputs):
        name, tensor, used = _decode_input(entry, raw, f"inputs[{index}]")
        if name in tensors:
            raise ApiError("tensor_unexpected", f"input {name!r} is sent twice", field=f"inputs[{index}]")
        tensors[name] = tensor
        raw = raw[used:]
    if len(raw):
        raise ApiError("tensor_size", f"{len(raw)} bytes are left over after the last input", field="inputs")
    parameters = _object(document, "parameters")
    return InferRequest(
        id=_id(document.get("id")),
        tensors=tensors,
        outputs=_wanted(document.get("outputs")),
        binary=parameters.get("binary_data_output") is True,
    )


_LAYOUTS = Layouts(_decode)


def encode_response(
    model: str, version: str, outputs: Tensors, parameters: Parameters, request: InferRequest
) -> Response:
    """The response: JSON, or JSON and raw tensors if any output is wanted raw."""
    raw: list[bytes] = []
    entries = []
    for name, tensor in outputs.items():
        entry: dict[str, Any] = {"name": name, "datatype": dtype_name(tensor), "shape": list(tensor.shape)}
        if request.wants_binary(name):
            raw.append(to_raw_bytes(tensor))
            entry["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            entry["data"] = to_json(tensor)
        entries.append(entry)
    document = {
        "model_name": model,
        "model_version": version,
        "id": request.id,
        "parameters": parameters,
        "outputs": entries,
    }
    if not raw:
        return json_response(document)
    header = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    length = (HEADER_LENGTH, str(len(header)).encode())
    return Response(b"".join((header, *raw)), 200, b"application/octet-stream", [length])


def to_raw_bytes(tensor: Tensor) -> bytes:
    """A tensor's bytes on the wire."""
    if tensor.dtype.kind != "O":
        return tensor.tobytes()
    return b"".join(struct.pack("<I", len(item)) + item for item in tensor.ravel())


def from_raw_bytes(raw: memoryview | bytes, datatype: str, shape: list[int], field: str) -> Tensor:
    """A tensor from its bytes on the wire; a read-only view where possible. Raises ApiError (tensor_size)."""
    count = math.prod(shape)
    if datatype == "BYTES":
        return _split_bytes(bytes(raw), count, field).reshape(shape)
    dtype = DTYPES[datatype]
    if len(raw) != count * dtype.itemsize:
        raise ApiError(
            "tensor_size",
            f"{len(raw)} bytes came, shape {shape} of {datatype} takes {count * dtype.itemsize}",
            field=field,
        )
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


def check_header(name: Any, datatype: Any, shape: Any, field: str) -> tuple[str, str, list[int]]:
    """The name, data type and shape an input declares. Raises ApiError if one is unusable."""
    if not isinstance(name, str) or not name:
        raise ApiError("invalid_request", "an input needs a name", field=f"{field}.name")
    if not isinstance(datatype, str) or datatype not in DTYPES:
        raise ApiError(
            "tensor_dtype",
            f"input {name!r} has datatype {str(datatype)[:20]!r}",
            field=name,
            hint=f"one of {', '.join(DTYPES)}",
        )
    if not _is_shape(shape):
        raise ApiError(
            "tensor_shape",
            f"input {name!r} has shape {str(shape)[:60]}",
            field=name,
            hint=f"a list of at most {MAX_DIMENSIONS} sizes, none of them negative or beyond reason",
        )
    return name, datatype, shape


def _is_shape(shape: Any) -> bool:
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        return False
    return all(type(n) is int and 0 <= n < 2**31 for n in shape) and math.prod(n or 1 for n in shape) <= MAX_ELEMENTS


def _header_length(sent: bytes | None, size: int) -> int:
    if sent is None:
        return size
    if not sent.isdigit() or len(sent) > 12 or int(sent) > size:
        raise ApiError(
            "invalid_json",
            f"the JSON header is said to have {sent.decode('latin-1')[:20]} bytes, the body has {size}",
            field="Inference-Header-Content-Length",
        )
    return int(sent)


def _decode_input(entry: Any, raw: memoryview, field: str) -> tuple[str, Tensor, int]:
    """Name, tensor, and how many raw bytes it took."""
    if not isinstance(entry, dict):
        raise ApiError("invalid_request", "an input must be an object", field=field)
    name, datatype, shape = check_header(entry.get("name"), entry.get("datatype"), entry.get("shape"), field)
    size = _object(entry, "parameters").get("binary_data_size")
    if size is None:
        return name, from_json(entry.get("data"), datatype, shape, name), 0
    if type(size) is not int or not 0 <= size <= len(raw):
        raise ApiError(
            "tensor_size", f"input {name!r} says {str(size)[:20]} raw bytes, {len(raw)} are there", field=name
        )
    return name, from_raw_bytes(raw[:size], datatype, shape, name), size


def _split_bytes(raw: bytes, count: int, field: str) -> Tensor:
    items: list[bytes] = []
    at = 0
    while at + 4 <= len(raw) and len(items) < count:
        (length,) = struct.unpack_from("<I", raw, at)
        items.append(raw[at + 4 : at + 4 + length])
        at += 4 + length
    if at != len(raw) or len(items) != count:
        raise ApiError("tensor_size", f"the raw bytes do not hold {count} length-prefixed elements", field=field)
    tensor = np.empty(count, dtype=object)
    tensor[:] = items
    return tensor


def _id(sent: Any) -> str:
    if sent is not None and (isinstance(sent, bool) or not isinstance(sent, str | int)):
        raise ApiError("invalid_request", "id must be a string", field="id")
    return "" if sent is None else str(sent)


def _wanted(outputs: Any) -> dict[str, bool | None] | None:
    if outputs is None or outputs == []:
        return None
    if not isinstance(outputs, list) or not all(
        isinstance(o, dict) and isinstance(o.get("name"), str) for o in outputs
    ):
        raise ApiError("invalid_request", "outputs must be a list of objects with a name", field="outputs")
    return {o["name"]: _object(o, "parameters").get("binary_data") for o in outputs}


def _object(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise ApiError("invalid_request", f"{key} must be an object", field=key)
    return value
