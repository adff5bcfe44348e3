"""The ready-made gRPC services, health and reflection, answer UNKNOWN to a message they cannot read.

`GuardedServer` stands in for the server when such a service is added: its handlers then refuse an unreadable message as
ours do, with INVALID_ARGUMENT and the error envelope.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from services.core.call import request_id_from
from services.core.errors import ApiError
from services.core.http2.server import Http2Server
from services.core.oip.grpc_service import abort, read_metadata

_UNREADABLE = object()


class GuardedServer:
    """What the generated `add_...Servicer_to_server` functions need of a server."""

    def __init__(self, server: grpc.aio.Server | Http2Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """The same handlers come by name, below."""

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, grpc.RpcMethodHandler]) -> None:
        guarded = {name: _guard(handler) for name, handler in methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, guarded),))


def _guard(handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
    read, write = _reader(handler.request_deserializer), handler.response_serializer

    async def one_one(request: Any, context: Any) -> Any:
        return await handler.unary_unary(await _readable(request, context), context)

    async def one_many(request: Any, context: Any) -> None:
        await handler.unary_stream(await _readable(request, context), context)  # health's Watch writes by itself

    async def many_many(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        readable = (await _readable(request, context) async for request in requests)
        async for answer in handler.stream_stream(readable, context):
            yield answer

    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(many_many, read, write)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(one_many, read, write)
    return grpc.unary_unary_rpc_method_handler(one_one, read, write)


def _reader(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        try:
            return parse(raw)
        except DecodeError:  # what a deserializer raises reaches the caller as UNKNOWN
            return _UNREADABLE

    return read


async def _readable(request: Any, context: Any) -> Any:
    if request is _UNREADABLE:
        error = ApiError("invalid_request", "the message is not one of this service's")
        await abort(context, error, request_id_from(read_metadata(context).get("x-request-id")))
    return request
