"""Raw tensors over HTTP: the protocol's JSON with the binary tensor extension.

A request or answer is a JSON header and, right behind it, the tensors' bytes in the order the header names them; the
header's length is in the HTTP header Inference-Header-Content-Length, each tensor's in its `binary_data_size`.
Answers in plain JSON (`data`) are read too, from servers without the extension.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _constants as c
from . import _json
from ._errors import UnexpectedAnswer
from ._exchange import InferCall
from ._infer import result
from ._tensors import RawTensor, decode, encode, from_elements
from ._types import InferResult


def infer_body(call: InferCall) -> tuple[dict[str, str], bytes]:
    """Headers and body of an infer request."""
    tensors = [encode(name, value) for name, value in call.inputs.items()]
    header: dict[str, Any] = {"inputs": [_described(tensor) for tensor in tensors], "parameters": dict(call.parameters)}
    if call.outputs is None:
        header["parameters"]["binary_data_output"] = True
    else:
        header["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in call.outputs]
    text = _json.encode(header)
    headers = {"Content-Type": "application/octet-stream", c.HEADER_LENGTH: str(len(text))}
    return headers, b"".join([text, *(tensor.content for tensor in tensors)])


def infer_result(headers: Mapping[str, str], body: bytes, request_id: str) -> InferResult:
    """The result of an infer answer, binary or JSON; UnexpectedAnswer if it is neither."""
    try:
        length = int(headers.get(c.HEADER_LENGTH) or len(body))
        answer = _json.decode(body[:length])
        outputs = _outputs(answer["outputs"], body, length)
        return result(
            outputs, answer.get("model_name"), answer.get("model_version"), answer.get("parameters"), request_id
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the answer is not an inference answer: {type(error).__name__} at {error}"
        raise UnexpectedAnswer(message) from error


def _described(tensor: RawTensor) -> dict[str, Any]:
    size = {"binary_data_size": len(tensor.content)}
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape), "parameters": size}


def _outputs(described: list[dict[str, Any]], body: bytes, at: int) -> dict[str, np.ndarray]:
    outputs: dict[str, np.ndarray] = {}
    for output in described:
        name, datatype, shape = output["name"], output["datatype"], tuple(output["shape"])
        size = (output.get("parameters") or {}).get("binary_data_size")
        if size is None:
            outputs[name] = from_elements(name, datatype, shape, _flat(output["data"]))
        else:
            outputs[name] = decode(RawTensor(name, datatype, shape, body[at : at + size]))
            at += size
    return outputs


def _flat(data: Any) -> list[Any]:
    """JSON data may be nested like the tensor or flat."""
    return [leaf for item in data for leaf in _flat(item)] if isinstance(data, list) else [data]
