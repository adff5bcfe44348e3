"""The protocol's gRPC service, with grpc.health.v1 and reflection, in the worker's own event loop.

It shares models and batchers with HTTP. An error carries the envelope in trailing metadata (`pressroom-error-bin`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any, NoReturn

import grpc
import orjson
from google.protobuf import json_format
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from services.core.call import Call, request_id_from
from services.core.errors import ApiError
from services.core.metrics import IN_FLIGHT, count_unrouted
from services.core.oip.documents import EXTENSIONS, SERVER_NAME, model_config, model_metadata, repository_index
from services.core.oip.grpc_codec import decode_tensors, encode_response
from services.core.oip.inference import infer
from services.core.oip.messages import POOL, SERVICE, ModelStreamInferResponse, message_class
from services.core.repository import INFER_ROUTE, Repository
from services.core.settings import Settings
from services.core.version import VERSION

log = logging.getLogger("pressroom.grpc")

Metadata = list[tuple[str, str | bytes]]


class GrpcServer:
    """Starts, answers, drains."""

    def __init__(self, repository: Repository, settings: Settings) -> None:
        self._repository = repository
        self._settings = settings
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._in_flight = IN_FLIGHT.labels("grpc")

    async def start(self) -> None:
        """Listen. Raises RuntimeError naming the port if it is taken."""
        settings = self._settings
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", settings.body_limit_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", int(settings.workers > 1)),  # workers share the port; two servers must not
            ]
        )
        server.add_generic_rpc_handlers((self._handlers(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, pool=POOL)
        try:
            server.add_insecure_port(f"{settings.host}:{settings.grpc_port}")
        except RuntimeError:
            raise RuntimeError(
                f"gRPC port {settings.grpc_port} on {settings.host} is not free; "
                "choose another with --grpc-port (PRESSROOM_GRPC_PORT), or 0 for none"
            ) from None
        await self.set_serving(False)
        await server.start()
        self._server = server

    async def set_serving(self, serving: bool) -> None:
        """What grpc.health.v1 answers, for the server and for the inference service."""
        states = health_pb2.HealthCheckResponse
        state = states.SERVING if serving else states.NOT_SERVING
        for service in ("", SERVICE):
            await self._health.set(service, state)

    async def stop(self) -> None:
        """Refuse new calls, let running ones finish within the drain time."""
        if self._server is not None:
            await self._server.stop(self._settings.drain_seconds)

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelConfig": self._model_config,
            "RepositoryIndex": self._repository_index,
        }
        methods = {name: _unary(self._guarded(name, method), name) for name, method in unary.items()}
        methods["ModelInfer"] = _unary(self._infer, "ModelInfer")
        methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._stream_infer,
            request_deserializer=message_class("ModelInferRequest").FromString,
            response_serializer=ModelStreamInferResponse.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _guarded(self, name: str, method: Callable[[Any], dict[str, Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        """A document method as a gRPC handler with our error shape."""
        answer = message_class(f"{name}Response")

        async def handler(request: Any, context: Any) -> Any:
            try:
                return json_format.ParseDict(method(request), answer(), descriptor_pool=POOL)
            except ApiError as error:
                await _abort(context, error, request_id_from(_metadata(context).get("x-request-id")))

        return handler

    def _server_live(self, request: Any) -> dict[str, Any]:
        return {"live": True}

    def _server_ready(self, request: Any) -> dict[str, Any]:
        return {"ready": self._repository.ready}

    def _model_ready(self, request: Any) -> dict[str, Any]:
        try:
            self._repository.find(request.name, request.version)
        except ApiError as error:
            if error.code == "model_not_ready":
                return {"ready": False}
            raise
        return {"ready": True}

    def _server_metadata(self, request: Any) -> dict[str, Any]:
        return {"name": SERVER_NAME, "version": VERSION, "extensions": EXTENSIONS}

    def _model_metadata(self, request: Any) -> dict[str, Any]:
        model = self._repository.find(request.name, request.version)
        return model_metadata(model, self._repository.versions(model.name))

    def _model_config(self, request: Any) -> dict[str, Any]:
        return {"config": model_config(self._repository.find(request.name, request.version))}

    def _repository_index(self, request: Any) -> dict[str, Any]:
        index = repository_index(self._repository)
        return {"models": [m for m in index if m["state"] == "READY" or not request.ready]}

    async def _infer(self, request: Any, context: Any) -> Any:
        call = self._call(context)
        try:
            response = await self._answer(request, call)
        except ApiError as error:
            await _abort(context, error, call.request_id)
        context.set_trailing_metadata((("x-request-id", call.request_id),))
        return response

    async def _stream_infer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """One answer per request, in order; a refused request is reported in its answer and ends nothing."""
        async for request in requests:
            call = self._call(context)
            try:
                yield ModelStreamInferResponse(infer_response=await self._answer(request, call))
            except ApiError as error:
                failed = ModelStreamInferResponse(error_message=orjson.dumps(error.envelope(call.request_id)).decode())
                failed.infer_response.id = request.id
                yield failed

    def _call(self, context: Any) -> Call:
        call = Call(INFER_ROUTE, "grpc", request_id_from(_metadata(context).get("x-request-id")))
        remaining = context.time_remaining()
        call.deadline = perf_counter() + (self._settings.request_timeout_ms / 1000 if remaining is None else remaining)
        return call

    async def _answer(self, request: Any, call: Call) -> Any:
        """The response message; every failure leaves as ApiError and is counted."""
        self._in_flight.inc()
        try:
            model = call.model = self._repository.find(request.model_name, request.model_version)
            wanted = [o.name for o in request.outputs] or None
            tensors = decode_tensors(request)
            outputs, parameters = await infer(
                self._repository, model, tensors, wanted, call, self._settings.max_request_rows
            )
            return encode_response(model.name, model.version, request.id, outputs, parameters)
        except asyncio.CancelledError:
            _count(call, "cancelled")
            raise
        except Exception as fault:
            error = ApiError.of(fault)
            if error.code == "internal":
                log.exception("request %s failed", call.request_id)
            _count(call, error.code)
            raise error from None
        finally:
            self._in_flight.dec()


def _unary(handler: Any, name: str) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        handler,
        request_deserializer=message_class(f"{name}Request").FromString,
        response_serializer=message_class(f"{name}Response").SerializeToString,
    )


def _metadata(context: Any) -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def _count(call: Call, code: str) -> None:
    if call.model is not None:
        call.model.metrics.refused(call, code)
    else:
        count_unrouted(call.route, "grpc", code)


async def _abort(context: Any, error: ApiError, request_id: str) -> NoReturn:
    metadata: Metadata = [
        ("x-request-id", request_id),
        ("pressroom-error-bin", orjson.dumps(error.envelope(request_id))),
    ]
    if error.retry_after_ms is not None:
        metadata.append(("retry-after-ms", str(error.retry_after_ms)))
    await context.abort(getattr(grpc.StatusCode, error.status.grpc), error.message, tuple(metadata))
    raise AssertionError("abort raises")
