"""The protocol's gRPC calls: the same models, batchers, gate and errors as HTTP.

Messages are parsed in the handlers, not by gRPC, so that an unreadable or oversized one is refused in our own words.
An error carries the envelope in trailing metadata (`pressroom-error-bin`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any, Literal, NoReturn

import grpc
import orjson
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from services.core.auth import Scope
from services.core.call import Call, read_priority, request_id_from
from services.core.control import read_command
from services.core.errors import ApiError
from services.core.http2.rpc import Rpc
from services.core.metrics import InFlight, count_unrouted
from services.core.oip.direct import Caller
from services.core.oip.documents import EXTENSIONS, SERVER_NAME, model_config, model_metadata, repository_index
from services.core.oip.grpc_codec import decode_tensors, encode_response
from services.core.oip.grpc_direct import Messages, Ride
from services.core.oip.grpc_error import error_metadata
from services.core.oip.grpc_wire import stream_response
from services.core.oip.inference import infer
from services.core.oip.messages import POOL, SERVICE, ModelInferRequest, ModelStreamInferResponse, message_class
from services.core.repository import INFER_ROUTE
from services.core.serving import Serving
from services.core.version import VERSION

log = logging.getLogger("pressroom.grpc")

Json = dict[str, Any]
Document = Callable[[Any], Json | Awaitable[Json]]
Metadata = dict[str, str]
_CHANGES: tuple[tuple[str, Literal["load", "unload"]], ...] = (
    ("RepositoryModelLoad", "load"),
    ("RepositoryModelUnload", "unload"),
)


class InferenceService:
    """Handlers of inference.GRPCInferenceService."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._repository = serving.repository
        self._gate = serving.gate
        self._journal = serving.journal
        self._settings = serving.settings
        self.last_call = 0.0  # perf_counter seconds
        self._in_flight = InFlight("grpc")
        self._messages = Messages()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a grpc server takes."""
        documents: dict[str, tuple[Document, Scope | None]] = {
            "ServerLive": (self._server_live, None),
            "ServerReady": (self._server_ready, None),
            "ModelReady": (self._model_ready, None),
            "ServerMetadata": (self._server_metadata, "infer"),
            "ModelMetadata": (self._model_metadata, "infer"),
            "ModelConfig": (self._model_config, "infer"),
            "RepositoryIndex": (self._repository_index, "infer"),
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(self._document(name, method, scope))
            for name, (method, scope) in documents.items()
        }
        for name, operation in _CHANGES:
            methods[name] = grpc.unary_unary_rpc_method_handler(self._document(name, self._change(operation), "admin"))
        methods["ModelInfer"] = grpc.unary_unary_rpc_method_handler(self._infer)
        methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream_infer)
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _document(self, name: str, method: Document, scope: Scope | None) -> Callable[[bytes, Any], Awaitable[bytes]]:
        """A document method as a gRPC handler."""
        request_class, answer_class = message_class(f"{name}Request"), message_class(f"{name}Response")

        async def handler(raw: bytes, context: Any) -> bytes:
            sent = read_metadata(context)
            try:
                self._gate.admit(scope, _secret(sent), self._settings.host)
                document = method(self._parse(request_class, raw))
                if isinstance(document, Awaitable):
                    document = await document
            except Exception as fault:
                error = ApiError.of(fault)
                if error.code == "internal":
                    log.exception("%s failed", name)
                count_unrouted(name, "grpc", error.code)
                await abort(context, error, request_id_from(sent.get("x-request-id")))
            answer = json_format.ParseDict(document, answer_class(), descriptor_pool=POOL)
            return bytes(answer.SerializeToString())

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

    def _change(self, operation: Literal["load", "unload"]) -> Document:
        async def method(request: Any) -> Json:
            parameters = {k: _value(p) for k, p in request.parameters.items()}
            for number in ("canary_weight", "shadow_fraction"):  # the protocol's parameters here have no floats
                if isinstance(parameters.get(number), str):
                    parameters[number] = _number(parameters[number])
            await self._repository.command(read_command(operation, request.model_name, parameters))
            return {}

        return method

    async def _infer(self, raw: bytes, context: Any) -> bytes:
        sent = read_metadata(context)
        call = self._call(context, sent)
        try:
            return await self._answer(raw, call, context, sent)
        except ApiError as error:
            await abort(context, error, call.request_id)

    async def _stream_infer(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """One answer per request, in order; a refused request is reported in its answer and ends nothing."""
        sent = read_metadata(context)
        async for raw in requests:
            call = self._call(context, sent)
            try:
                yield stream_response(await self._answer(raw, call, context, sent))
            except ApiError as error:
                answer = ModelStreamInferResponse(error_message=orjson.dumps(error.envelope(call.request_id)).decode())
                yield bytes(answer.SerializeToString())

    def express(self, rpc: Rpc, raw: bytes) -> Ride | None:
        """A ModelInfer of a kind that came before, ready to begin; None: it goes the ordinary way."""
        message = self._messages.recall(raw)
        if message is None or self._repository.draining:
            return None
        sent = rpc.head.texts
        call = self._call(rpc, sent)
        try:
            _read_wishes(call, sent)
        except ApiError:
            return None  # refused there
        ride = Ride(self._serving, self._in_flight, message.form.layout.read(raw), call, rpc)
        if not ride.admit(message.form, Caller(_secret(sent), self._settings.host)):
            return None
        self.last_call = perf_counter()
        return ride

    def _call(self, context: Any, sent: Metadata) -> Call:
        call = Call(INFER_ROUTE, "grpc", request_id_from(sent.get("x-request-id")))
        remaining = context.time_remaining()
        call.named_deadline = remaining is not None
        call.deadline = perf_counter() + (self._settings.request_timeout_ms / 1000 if remaining is None else remaining)
        return call

    async def _answer(self, raw: bytes, call: Call, context: Any, sent: Metadata) -> bytes:
        """The response message's bytes; every failure leaves as ApiError, is counted and written down."""
        self._in_flight.count += 1
        self.last_call = perf_counter()
        code, key_id = "ok", None
        try:
            if self._repository.draining:
                raise ApiError("shutting_down", "the server is draining", hint="retry; another replica will answer")
            admission = self._gate.admit("infer", _secret(sent), self._settings.host)
            key_id = call.key_id = admission.key_id
            context.set_trailing_metadata((("x-request-id", call.request_id), *admission.headers.items()))
            _read_wishes(call, sent)
            with self._gate.inside():
                return await self._run(raw, call)
        except asyncio.CancelledError:
            code = "cancelled"
            raise
        except Exception as fault:
            error = ApiError.of(fault)
            code = error.code
            if code == "internal":
                log.exception("request %s failed", call.request_id)
            raise error from None
        finally:
            self._in_flight.count -= 1
            if code != "ok":
                call.finish()
                _count(call, code)
            self._journal.finished(call, code, key_id)

    async def _run(self, raw: bytes, call: Call) -> bytes:
        request = self._parse(ModelInferRequest, raw)
        name, version = request.model_name, request.model_version
        model = call.model = self._repository.find(name, version, call) if name else self._repository.only(None, call)
        wanted = [o.name for o in request.outputs] or None
        tensors = decode_tensors(request)
        outputs, parameters = await infer(self._serving, model, tensors, wanted, call)
        self._messages.keep(raw, request, tensors)
        return encode_response(model.name, model.version, request.id, outputs, parameters)

    def _parse(self, message: Any, raw: bytes) -> Any:
        limit = self._settings.body_limit_bytes
        if len(raw) > limit:
            raise ApiError(
                "payload_too_large", f"the message has {len(raw)} bytes, the limit is {limit}", hint="send fewer rows"
            )
        try:
            return message.FromString(raw)
        except DecodeError:
            raise ApiError("invalid_request", f"the message is not a {message.DESCRIPTOR.full_name}") from None


class UnknownCalls(grpc.GenericRpcHandler):
    """The last handler in line: calls nobody else knows are refused in the common shape."""

    def service(self, details: Any) -> grpc.RpcMethodHandler:
        async def refuse(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            count_unrouted("", "grpc", "route_not_found")
            hint = f"see {SERVICE} by reflection"
            error = ApiError("route_not_found", f"no call {details.method[:80]!r}", hint=hint)
            await abort(context, error, request_id_from(read_metadata(context).get("x-request-id")))
            yield b""

        return grpc.stream_stream_rpc_method_handler(refuse)


def _value(parameter: Any) -> Any:
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def read_metadata(context: Any) -> Metadata:
    """The caller's metadata that is text; of a repeated key, the last."""
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def _read_wishes(call: Call, sent: Metadata) -> None:
    call.pinned_version = sent.get("x-model-version")
    call.traceparent = sent.get("traceparent")
    call.interactive = read_priority(sent.get("x-priority", "interactive"), "x-priority")


def _secret(metadata: Metadata) -> str | None:
    kind, _, token = metadata.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else metadata.get("x-api-key")


def _count(call: Call, code: str) -> None:
    if call.model is not None:
        call.model.metrics.refused(call, code)
    else:
        count_unrouted(call.route, "grpc", code)


async def abort(context: Any, error: ApiError, request_id: str) -> NoReturn:
    """End a call with the error's status, and its envelope in trailing metadata."""
    metadata = error_metadata(error, request_id)
    await context.abort(getattr(grpc.StatusCode, error.status.grpc), error.message, metadata)
    raise AssertionError("abort raises")
