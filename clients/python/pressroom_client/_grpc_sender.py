"""gRPC: two senders over grpcio, sync and async. Each carries one attempt; both raise this package's errors.

The channel is opened at the first call, because grpcio binds an async channel to the loop that is running then. Its
own retries are off, so that every retry is this client's and is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from . import _constants as c
from ._config import Clock, GrpcTransport, Timeout
from ._error_mapping import grpc_error
from ._errors import PressroomError, UsageError
from ._exchange import Attempt
from ._grpc_wire import GrpcReply, GrpcRequest

log = logging.getLogger("pressroom_client")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where to connect and how."""

    target: str  # "host:port"
    secure: bool
    headers: Mapping[str, str]
    transport: GrpcTransport
    timeout: Timeout
    clock: Clock

    def channel(self, module: Any) -> Any:
        """A channel of grpc or grpc.aio."""
        options = _options(self.transport, self.timeout, self.headers["User-Agent"])
        if not self.secure:
            return module.insecure_channel(self.target, options)
        credentials = self.transport.credentials or _grpc().ssl_channel_credentials()
        return module.secure_channel(self.target, credentials, options)

    def arguments(self, attempt: Attempt) -> dict[str, Any]:
        """Deadline and metadata of one attempt."""
        headers = {**self.headers, **attempt.headers()}
        metadata = {name.lower(): value for name, value in headers.items()}
        metadata.pop("user-agent", None)  # the channel's own, see _options
        return {"timeout": attempt.timeout.read, "metadata": tuple(metadata.items())}

    def describe(self, request: GrpcRequest, attempt: Attempt) -> str:
        """The request's name in logs and errors."""
        described = f"{request.method.path.lstrip('/')} at {self.target}"
        log.debug("%s (request id %s, attempt %d)", described, attempt.request_id, attempt.number + 1)
        return described

    def failed(self, error: Any, described: str, attempt: Attempt) -> PressroomError:
        """The exception for grpc.RpcError or grpc.aio.AioRpcError."""
        trailing = _mapping(error.trailing_metadata())
        return grpc_error(
            error.code().name,
            error.details() or "",
            trailing,
            request=described,
            request_id=attempt.request_id,
            wall=self.clock.wall,
        )


class GrpcSender:
    """Sends over one channel; blocks; safe to share between threads."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._grpc = _grpc()
        self._channel: Any = None
        self._lock = Lock()
        self._calls: dict[str, Any] = {}

    def send(self, request: GrpcRequest, attempt: Attempt) -> GrpcReply:
        described = self._address.describe(request, attempt)
        try:
            message, call = self._call(request).with_call(request.message, **self._address.arguments(attempt))
        except self._grpc.RpcError as error:
            raise self._address.failed(error, described, attempt) from error
        return _reply(message, call.trailing_metadata(), described, attempt)

    def _call(self, request: GrpcRequest) -> Any:
        with self._lock:
            if self._channel is None:
                self._channel = self._address.channel(self._grpc)
            return _callable(self._channel, self._calls, request)

    def close(self) -> None:
        with self._lock:
            if self._channel is not None:
                self._channel.close()


class AsyncGrpcSender:
    """Sends over one channel of the loop that makes the first call; awaits."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._grpc = _grpc()
        self._channel: Any = None
        self._calls: dict[str, Any] = {}

    async def send(self, request: GrpcRequest, attempt: Attempt) -> GrpcReply:
        described = self._address.describe(request, attempt)
        if self._channel is None:
            self._channel = self._address.channel(self._grpc.aio)
        try:
            call = _callable(self._channel, self._calls, request)(request.message, **self._address.arguments(attempt))
            message, trailing = await call, await call.trailing_metadata()
        except self._grpc.RpcError as error:
            raise self._address.failed(error, described, attempt) from error
        return _reply(message, trailing, described, attempt)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


def _grpc() -> Any:
    try:
        import grpc
        import grpc.aio
    except ImportError as error:
        hint = 'pip install "pressroom-client[grpc]", or use an http:// address'
        raise UsageError("gRPC needs grpcio and protobuf, which are not installed", hint=hint) from error
    return grpc


def _options(transport: GrpcTransport, timeout: Timeout, agent: str) -> list[tuple[str, Any]]:
    size = -1 if transport.max_message_bytes is None else transport.max_message_bytes
    options = [
        ("grpc.max_send_message_length", size),
        ("grpc.max_receive_message_length", size),
        ("grpc.enable_retries", 0),
        ("grpc.primary_user_agent", agent),
        ("grpc.initial_reconnect_backoff_ms", c.GRPC_FIRST_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", c.GRPC_LONGEST_RECONNECT_MS),
    ]
    if timeout.connect is not None:
        # grpcio gives a connection attempt this long before it counts as failed; its name speaks of the pause only.
        options.append(("grpc.min_reconnect_backoff_ms", max(1, round(timeout.connect * 1000))))
    return [*options, *transport.options]


def _callable(channel: Any, known: dict[str, Callable[..., Any]], request: GrpcRequest) -> Any:
    method = request.method
    if method.path not in known:
        serializers = (method.request.SerializeToString, method.response.FromString)
        known[method.path] = channel.unary_unary(method.path, *serializers)
    return known[method.path]


def _reply(message: Any, trailing: Any, described: str, attempt: Attempt) -> GrpcReply:
    said = _mapping(trailing).get(c.REQUEST_ID.lower())
    request_id = said if isinstance(said, str) else attempt.request_id
    log.debug("%s: OK (request id %s)", described, request_id)
    return GrpcReply(message, request_id)


def _mapping(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str | bytes]:
    return dict(iter(metadata or ()))  # by pairs: older grpcio has keys() whose keys are pairs
