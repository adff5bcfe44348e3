"""Requests over every protocol, and refusals read into one shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import etth1
import grpc
import httpx
import numpy as np
from live_server import LiveServer
from refusals import infer_message
from tritonclient.grpc import service_pb2_grpc

from services.core.errors import CODES

INFER = "/v2/models/{}/infer"
_KEYS = {"code", "message", "field", "hint", "request_id"}


@dataclass(frozen=True)
class Refusal:
    """An error as the caller got it. status: HTTP number or gRPC name; headers: HTTP headers or trailing metadata."""

    status: int | str
    error: dict[str, Any]
    headers: dict[str, str]

    @property
    def code(self) -> str:
        return str(self.error["code"])


def refusal_of(response: httpx.Response) -> Refusal:
    """Read an HTTP refusal; AssertionError unless it has the envelope, its status and the request id."""
    refusal = Refusal(response.status_code, response.json()["error"], dict(response.headers))
    _check(refusal, CODES[refusal.code].http)
    return refusal


def rpc_refusal_of(fault: Any) -> Refusal:
    """The same of a failed call."""
    trailing = {item[0]: item[1] for item in fault.trailing_metadata()}
    assert "pressroom-error-bin" in trailing, (fault.code(), fault.details())
    refusal = Refusal(fault.code().name, json.loads(trailing["pressroom-error-bin"])["error"], trailing)
    _check(refusal, CODES[refusal.code].grpc)
    return refusal


def _check(refusal: Refusal, status: int | str) -> None:
    assert refusal.status == status
    assert refusal.error.keys() - {"retry_after_ms"} == _KEYS
    assert refusal.headers["x-request-id"] == refusal.error["request_id"]


@contextmanager
def stub(server: LiveServer, credentials: grpc.ChannelCredentials | None = None) -> Iterator[Any]:
    """The inference service over a channel of its own."""
    address = server.grpc_address
    channel = grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address)
    with channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def rpc(server: LiveServer, method: str, message: Any, **options: Any) -> Any:
    """One call; the answer message. Raises grpc.RpcError."""
    with stub(server) as calls:
        return getattr(calls, method)(message, **{"timeout": 30, **options})


def rpc_refusal(server: LiveServer, method: str, message: Any, **options: Any) -> Refusal:
    """One call that must be refused."""
    try:
        answer = rpc(server, method, message, **options)
    except grpc.RpcError as fault:
        return rpc_refusal_of(fault)
    raise AssertionError(f"{method} was answered: {str(answer)[:200]}")


def tensor_message(model: str, name: str, array: np.ndarray, datatype: str = "FP32", version: str = "") -> Any:
    """A ModelInferRequest with one raw tensor."""
    message = infer_message(model, version)
    message.inputs.add(name=name, datatype=datatype, shape=array.shape)
    message.raw_input_contents.append(array.tobytes())
    return message


def forecast_message(model: str = etth1.CARD, first: int = etth1.START) -> Any:
    return tensor_message(model, "history", etth1.history(first))


def binary_body(array: np.ndarray, name: str = "history") -> tuple[bytes, dict[str, str]]:
    """Body and headers of the protocol's raw-tensor form over REST; the answer is asked for in raw bytes too."""
    entry = {
        "name": name,
        "datatype": "FP32",
        "shape": list(array.shape),
        "parameters": {"binary_data_size": array.nbytes},
    }
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    return head + array.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def raw_output(response_body: bytes, head_length: int, shape: tuple[int, ...]) -> np.ndarray:
    """The one FP32 output of a raw-tensor answer."""
    return np.frombuffer(response_body[head_length:], dtype=np.float32).reshape(shape)


def rpc_output(answer: Any) -> np.ndarray:
    """The first FP32 output of a gRPC answer."""
    return np.frombuffer(answer.raw_output_contents[0], dtype=np.float32).reshape(list(answer.outputs[0].shape))
