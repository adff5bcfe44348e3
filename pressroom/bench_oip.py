"""Requests and answers of the Open Inference Protocol as bytes: JSON, JSON with binary tensors, gRPC."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from services.core.oip.codec import to_raw_bytes
from services.core.oip.messages import ModelInferRequest, ModelInferResponse
from services.core.tensors import DTYPES, dtype_name

Tensors = Mapping[str, npt.NDArray[Any]]  # BYTES tensors are object arrays of bytes
JSON_TYPE = {"Content-Type": "application/json"}
HEADER_LENGTH = "Inference-Header-Content-Length"


def as_json(tensors: Tensors) -> tuple[bytes, dict[str, str]]:
    """Body and headers with the tensors as JSON numbers; BYTES as text."""
    inputs = [{**_head(name, tensor), "data": _listed(tensor)} for name, tensor in tensors.items()]
    return orjson.dumps({"inputs": inputs}, option=orjson.OPT_SERIALIZE_NUMPY), JSON_TYPE


def as_binary(tensors: Tensors) -> tuple[bytes, dict[str, str]]:
    """Body and headers with the tensors as bytes behind the JSON; the answer is asked for in the same way."""
    raw = {name: to_raw_bytes(tensor) for name, tensor in tensors.items()}
    inputs = [
        {**_head(name, tensor), "parameters": {"binary_data_size": len(raw[name])}} for name, tensor in tensors.items()
    ]
    document = orjson.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}})
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(document))}
    return b"".join([document, *raw.values()]), headers


def as_message(model: str, version: str, tensors: Tensors) -> bytes:
    """A serialized ModelInferRequest with raw contents."""
    request = ModelInferRequest(model_name=model, model_version=version)
    for name, tensor in tensors.items():
        request.inputs.add(name=name, datatype=dtype_name(tensor), shape=tensor.shape)
        request.raw_input_contents.append(to_raw_bytes(tensor))
    return bytes(request.SerializeToString())


def read_answer(head: bytes, body: bytes) -> dict[str, npt.NDArray[Any]]:
    """Output tensors of a REST answer, binary or not; head in lower case. Raises ValueError or KeyError."""
    _, found, rest = head.partition(HEADER_LENGTH.lower().encode() + b":")
    length = int(rest.partition(b"\r\n")[0]) if found else len(body)
    outputs, at = {}, length
    for output in orjson.loads(body[:length])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            outputs[output["name"]] = np.array(output["data"]).reshape(output["shape"])
        else:
            outputs[output["name"]] = _tensor(output["datatype"], output["shape"], body[at : at + size])
            at += size
    return outputs


def read_message(body: bytes) -> dict[str, npt.NDArray[Any]]:
    """Output tensors of a serialized ModelInferResponse with raw contents."""
    response = ModelInferResponse.FromString(body)
    pairs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {output.name: _tensor(output.datatype, list(output.shape), raw) for output, raw in pairs}


def read_inputs(document: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Tensors of a JSON infer request. Raises KeyError, ValueError or TypeError if it is none."""
    return {
        one["name"]: np.array(_flat(one["data"], one["datatype"]), dtype=DTYPES[one["datatype"]]).reshape(one["shape"])
        for one in document["inputs"]
    }


def _head(name: str, tensor: npt.NDArray[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": dtype_name(tensor), "shape": list(tensor.shape)}


def _listed(tensor: npt.NDArray[Any]) -> Any:
    if tensor.dtype != object:
        return tensor.ravel() if tensor.dtype != np.float16 else tensor.ravel().tolist()
    return [_text(item) for item in tensor.ravel()]


def _text(item: bytes) -> str:
    try:
        return item.decode()
    except UnicodeDecodeError:  # what REST servers of the protocol read where bytes are no text
        return base64.b64encode(item).decode()


def _flat(data: Any, kind: str) -> Any:
    if kind != "BYTES":
        return data
    flat = np.array(data, dtype=object).ravel()
    return [item.encode() if isinstance(item, str) else bytes(item) for item in flat]


def _tensor(kind: str, shape: list[int], raw: bytes) -> npt.NDArray[Any]:
    if kind != "BYTES":
        return np.frombuffer(raw, dtype=DTYPES[kind]).reshape(shape)
    items, at = [], 0
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        items.append(raw[at + 4 : at + 4 + size])
        at += 4 + size
    tensor = np.empty(len(items), dtype=object)
    tensor[:] = items
    return tensor.reshape(shape)
