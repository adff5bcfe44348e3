# ruff: noqa: N802 (methods carry the names of the RPCs)
"""The gRPC face of the tiny service: one method a call, over the client's message classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import grpc
import tiny_images
import tiny_records
import tiny_text
from pressroom_client._grpc_messages import methods, set_parameters
from tiny_service import DIGEST, HORIZON, MODEL, OUTPUTS, STAGES, TENSORS, Behaviour, RefusalError, Seen, forecast


class Calls:
    """The service's unary calls: (request, request id) -> response."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._types = {name: method.response for name, method in methods().items()}

    def handler(self, name: str) -> Callable[[Any, grpc.ServicerContext], Any]:
        """A gRPC handler that meets the behaviour first."""

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            headers = dict(context.invocation_metadata())
            request_id = headers.get("x-request-id", "made-by-server")
            context.set_trailing_metadata((("x-request-id", request_id),))
            try:
                self._behaviour.meet(Seen(name, headers, request, context.time_remaining()))
                if self._behaviour.stall:
                    self._behaviour.release.wait(10)
                return getattr(self, name)(request, request_id)
            except RefusalError as refusal:
                self._refuse(context, refusal, request_id)

        return handle

    def _refuse(self, context: grpc.ServicerContext, refusal: RefusalError, request_id: str) -> None:
        error = {"error": {**refusal.envelope, "request_id": request_id}}
        trailing = [("x-request-id", request_id), *((k.lower(), v) for k, v in refusal.headers.items())]
        if refusal.raw is None:
            trailing.append(("pressroom-error-bin", json.dumps(error).encode()))
        context.set_trailing_metadata(tuple(trailing))
        details = refusal.envelope["message"] if refusal.raw is None else refusal.raw.decode()
        context.abort(getattr(grpc.StatusCode, refusal.grpc_status), details)

    def ServerLive(self, request: Any, request_id: str) -> Any:
        return self._types["ServerLive"](live=True)

    def ServerReady(self, request: Any, request_id: str) -> Any:
        return self._types["ServerReady"](ready=True)

    def ModelReady(self, request: Any, request_id: str) -> Any:
        self._known(request.name)
        return self._types["ModelReady"](ready=True)

    def ServerMetadata(self, request: Any, request_id: str) -> Any:
        return self._types["ServerMetadata"](name="tiny", version="1.0", extensions=["binary_tensor_data"])

    def ModelMetadata(self, request: Any, request_id: str) -> Any:
        self._known(request.name)
        versions = [request.version] if request.version else ["1", "2"]
        described = {"name": "counter", "versions": versions, "platform": "onnx", "inputs": TENSORS, "outputs": OUTPUTS}
        return self._types["ModelMetadata"](**described)

    def RepositoryIndex(self, request: Any, request_id: str) -> Any:
        entries = [{"name": "counter", "version": version, "state": "READY"} for version in MODEL["versions"]]
        return self._types["RepositoryIndex"](models=entries)

    def ModelInfer(self, request: Any, request_id: str) -> Any:
        if [tensor.name for tensor in request.inputs] == ["request"]:
            return self._native(request, request_id)
        answer = self._answer(request, request_id)
        asked = [output.name for output in request.outputs] or [tensor.name for tensor in request.inputs]
        for tensor, content in zip(request.inputs, request.raw_input_contents, strict=True):
            if tensor.name in asked:
                answer.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
                answer.raw_output_contents.append(content)
        return answer

    def _native(self, request: Any, request_id: str) -> Any:
        (content,) = request.raw_input_contents
        length = int.from_bytes(content[:4], "little")
        assert length == len(content) - 4
        asked = json.loads(content[4:])
        native = json.dumps(_task(asked)(asked, request_id)).encode()
        answer = self._answer(request, request_id)
        answer.outputs.add(name="response", datatype="BYTES", shape=[1])
        answer.raw_output_contents.append(len(native).to_bytes(4, "little") + native)
        return answer

    def _answer(self, request: Any, request_id: str) -> Any:
        answer = self._types["ModelInfer"](model_name=request.model_name, model_version=request.model_version or "2")
        said = {"request_id": request_id, "digest": DIGEST, "batch_rows": 1, "note": HORIZON, **STAGES}
        set_parameters(answer.parameters, said)
        return answer

    def _known(self, name: str) -> None:
        if name != "counter":
            raise RefusalError("model_not_found", 404, "NOT_FOUND")


def _task(asked: dict[str, Any]) -> Callable[[dict[str, Any], str], dict[str, Any]]:
    """Which model a native request is for."""
    if "series" in asked:
        return forecast
    if "image" in asked:
        return tiny_images.answer
    return tiny_records.answer if asked.keys() & {"patients", "events_parquet"} else tiny_text.answer
