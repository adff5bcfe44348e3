"""What every refusal must look like, over HTTP and gRPC; the tests say which code, status and field they expect."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import grpc
import httpx
from live_server import LiveServer
from tritonclient.grpc import service_pb2, service_pb2_grpc

from services.core.errors import CODES

_KEYS = {"code", "message", "field", "hint", "request_id"}
_HERE = (str(Path.home()), str(Path(__file__).parents[1]), tempfile.gettempdir())
_INTERNALS = ("Traceback", 'File "', "site-packages", "/models/", "/services/", "0x", *_HERE)
_OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def check_envelope(document: Any, code: str, field: str | None) -> dict[str, Any]:
    """The closed shape: known code, a sentence, the field, a hint or null, the request id, nothing internal."""
    assert document.keys() == {"error"}
    error: dict[str, Any] = document["error"]
    assert (error["code"], error["field"]) == (code, field), error
    assert code in CODES
    assert error.keys() == _KEYS | ({"retry_after_ms"} if code == "queue_full" else set())
    assert len(error["message"]) > 5
    assert error["hint"] is None or len(error["hint"]) > 5
    assert error["request_id"]
    text = json.dumps(error)
    assert not any(word in text for word in _INTERNALS), text
    return error


def check_http(response: httpx.Response, status: int, code: str, field: str | None) -> dict[str, Any]:
    """An HTTP refusal: status, content type, request id header, envelope."""
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "application/json"
    error = check_envelope(response.json(), code, field)
    assert CODES[code].http == status
    assert response.headers["x-request-id"] == error["request_id"]
    return error


def infer_message(model: str, version: str = "", **fields: Any) -> Any:
    """A ModelInferRequest of tritonclient's own message classes."""
    return service_pb2.ModelInferRequest(model_name=model, model_version=version, **fields)


def grpc_infer(server: LiveServer, message: Any, **options: Any) -> Any:
    """Send one ModelInfer by tritonclient's stub; the answer message, or grpc.RpcError."""
    with grpc.insecure_channel(server.grpc_address, options=_OPTIONS) as channel:
        return service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message, **{"timeout": 30, **options})


def check_grpc(server: LiveServer, message: Any, status: str, code: str, field: str | None) -> dict[str, Any]:
    """A gRPC refusal: status, and the envelope in the trailing metadata `pressroom-error-bin`."""
    try:
        answer = grpc_infer(server, message)
    except grpc.RpcError as refused:
        return check_rpc_error(refused, status, code, field)
    raise AssertionError(f"expected {code}, got an answer: {str(answer)[:300]}")


def check_rpc_error(refused: Any, status: str, code: str, field: str | None) -> dict[str, Any]:
    trailing = {item[0]: item[1] for item in refused.trailing_metadata()}
    assert refused.code().name == status, (refused.code(), refused.details())
    error = check_envelope(json.loads(trailing["pressroom-error-bin"]), code, field)
    assert CODES[code].grpc == status
    assert refused.details() == error["message"]
    assert trailing["x-request-id"] == error["request_id"]
    return error
