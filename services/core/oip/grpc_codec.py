"""gRPC messages to named tensors and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from services.core.errors import ApiError
from services.core.oip.codec import check_header, from_raw_bytes, to_raw_bytes
from services.core.oip.grpc_wire import response
from services.core.oip.inference import Parameters
from services.core.tensors import DTYPES, Tensor, Tensors, dtype_name

_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


def decode_tensors(request: Any) -> Tensors:
    """Input tensors of a ModelInferRequest. Raises ApiError naming the input and what is wrong with it."""
    raw = request.raw_input_contents
    if not request.inputs:
        raise ApiError("invalid_request", "the request has no inputs", field="inputs")
    if raw and len(raw) != len(request.inputs):
        raise ApiError(
            "tensor_size", f"{len(request.inputs)} inputs came with {len(raw)} raw contents", field="raw_input_contents"
        )
    tensors: Tensors = {}
    for index, entry in enumerate(request.inputs):
        name, datatype, shape = check_header(entry.name, entry.datatype, list(entry.shape), f"inputs[{index}]")
        if name in tensors:
            raise ApiError("tensor_unexpected", f"input {name!r} is sent twice", field=f"inputs[{index}]")
        if raw:
            tensors[name] = from_raw_bytes(raw[index], datatype, shape, name)
        else:
            tensors[name] = _from_contents(entry.contents, datatype, shape, name)
    return tensors


def _from_contents(contents: Any, datatype: str, shape: list[int], name: str) -> Tensor:
    field = _CONTENTS.get(datatype)
    if field is None:
        raise ApiError("tensor_dtype", f"input {name!r}: {datatype} travels as raw contents only", field=name)
    values = getattr(contents, field)
    if len(values) != math.prod(shape):
        raise ApiError("tensor_size", f"input {name!r} has {len(values)} values in {field}, not {shape}", field=name)
    if datatype == "BYTES":
        tensor = np.empty(len(values), dtype=object)
        tensor[:] = list(values)
        return tensor.reshape(shape)
    wide = np.array(values)
    tensor = wide.astype(DTYPES[datatype])
    if wide.dtype.kind in "iu" and not np.array_equal(wide, tensor):
        raise ApiError("value_out_of_range", f"input {name!r} has a value outside {datatype}", field=name)
    return tensor.reshape(shape)


def encode_response(name: str, version: str, request_id: str, outputs: Tensors, parameters: Parameters) -> bytes:
    """The bytes of a ModelInferResponse with raw contents."""
    entries = ((output, dtype_name(tensor), tensor.shape, to_raw_bytes(tensor)) for output, tensor in outputs.items())
    return response(name, version, request_id, parameters, entries)
