"""The ways to ask for one forecast: prepared request bytes, and how to read the answer.

Requests are prepared once, so that the load generator only copies bytes. Every request asks for one window.

    json         POST /v1/forecast, named columns and ISO 8601 timestamps in JSON
    oip-json     Open Inference Protocol over REST, tensors as JSON numbers
    oip-binary   the same, tensors as raw bytes behind the JSON header
    grpc         Open Inference Protocol over gRPC, raw contents
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.windows import Windows
from services.core.oip.messages import ModelInferRequest, ModelInferResponse

INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer"
Forecast = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Wire:
    """One way to ask.

    build  model name, windows, index of one -> request: an HTTP/1.1 request with head, or a gRPC message
    read   response head (empty for gRPC), response body -> forecast [H, C] in raw units
    """

    key: str
    title: str
    grpc: bool
    build: Callable[[str, Windows, int], bytes]
    read: Callable[[bytes, bytes], Forecast]


def _post(path: str, body: bytes, header: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n{header}\r\n"
    return head.encode() + body


def _build_json(model: str, windows: Windows, index: int) -> bytes:
    stamps = np.datetime_as_string(windows.stamps[index].astype("M8[s]")).tolist()
    values = dict(zip(windows.columns, windows.history[index].T.tolist(), strict=True))
    document = {"model": model, "series": [{"timestamps": stamps, "values": values}]}
    return _post("/v1/forecast", orjson.dumps(document), "Content-Type: application/json\r\n")


def _read_json(head: bytes, body: bytes) -> Forecast:
    values = orjson.loads(body)["series"][0]["values"]
    return np.array(list(values.values())).T


def _tensors(windows: Windows, index: int) -> dict[str, tuple[str, npt.NDArray[Any]]]:
    history = np.ascontiguousarray(windows.history[index : index + 1], dtype=np.float32)
    stamps = np.ascontiguousarray(windows.stamps[index : index + 1])
    return {"history": ("FP32", history), "timestamps": ("INT64", stamps)}


def _build_oip_json(model: str, windows: Windows, index: int) -> bytes:
    inputs = [
        {"name": name, "datatype": datatype, "shape": tensor.shape, "data": tensor.ravel()}
        for name, (datatype, tensor) in _tensors(windows, index).items()
    ]
    body = orjson.dumps({"inputs": inputs}, option=orjson.OPT_SERIALIZE_NUMPY)
    return _post(f"/v2/models/{model}/infer", body, "Content-Type: application/json\r\n")


def _read_oip_json(head: bytes, body: bytes) -> Forecast:
    output = orjson.loads(body)["outputs"][0]
    return np.array(output["data"]).reshape(output["shape"][1:])


def _build_oip_binary(model: str, windows: Windows, index: int) -> bytes:
    tensors = _tensors(windows, index)
    inputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": tensor.shape,
            "parameters": {"binary_data_size": tensor.nbytes},
        }
        for name, (datatype, tensor) in tensors.items()
    ]
    document = orjson.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}})
    body = b"".join([document, *(tensor.tobytes() for _, tensor in tensors.values())])
    return _post(f"/v2/models/{model}/infer", body, f"Inference-Header-Content-Length: {len(document)}\r\n")


def _read_oip_binary(head: bytes, body: bytes) -> Forecast:
    _, _, rest = head.lower().partition(b"inference-header-content-length:")
    length = int(rest.partition(b"\r\n")[0])
    shape = orjson.loads(body[:length])["outputs"][0]["shape"]
    return np.frombuffer(body[length:], dtype=np.float32).reshape(shape[1:])


def _build_grpc(model: str, windows: Windows, index: int) -> bytes:
    request = ModelInferRequest(model_name=model)
    for name, (datatype, tensor) in _tensors(windows, index).items():
        request.inputs.add(name=name, datatype=datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.tobytes())
    return bytes(request.SerializeToString())


def _read_grpc(head: bytes, body: bytes) -> Forecast:
    response = ModelInferResponse.FromString(body)
    return np.frombuffer(response.raw_output_contents[0], dtype=np.float32).reshape(response.outputs[0].shape[1:])


WIRES = {
    wire.key: wire
    for wire in (
        Wire("json", "native JSON", False, _build_json, _read_json),
        Wire("oip-json", "OIP REST JSON", False, _build_oip_json, _read_oip_json),
        Wire("oip-binary", "OIP REST binary", False, _build_oip_binary, _read_oip_binary),
        Wire("grpc", "OIP gRPC", True, _build_grpc, _read_grpc),
    )
}
