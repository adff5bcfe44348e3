"""gRPC calls for a load generator: bytes in, bytes out, no message is made or read."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import orjson

from pressroom.bench_http import Answered, Outcome

INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer"
MOST_CHANNELS = 64  # further calls share them: a channel carries many at a time
_DETAIL = "pressroom-error-bin"  # our servers put the error's document there
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own for every channel
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


class GrpcLine:
    """One caller on a channel; the interface of `HttpLine`."""

    usable = True

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self._infer = channel.unary_unary(INFER_METHOD)
        self._metadata = metadata
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """gRPC connects with the first call."""

    def ask(self, request: bytes, answered: Answered) -> None:
        """Send a request; `answered` is called once, from the event loop."""
        self._task = asyncio.ensure_future(self._ask(request, answered))

    async def _ask(self, request: bytes, answered: Answered) -> None:
        try:
            body = await self._infer(request, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:  # every status but OK
            answered(Outcome(_failure(error), b"", (error.details() or "").encode()))
        else:
            answered(Outcome("", b"", body))

    def close(self) -> None:
        """A request on its way is not answered any more."""
        if self._task is not None:
            self._task.cancel()


def open_channel(address: str, authorities: bytes | None, *, tls: bool) -> grpc.aio.Channel:
    """A channel with a connection of its own."""
    if tls:
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(authorities), options=_OPTIONS)
    return grpc.aio.insecure_channel(address, options=_OPTIONS)


def _failure(error: grpc.aio.AioRpcError) -> str:
    """The status and, of our servers, the code."""
    trailing: dict[str, Any] = dict(error.trailing_metadata() or ())
    try:
        code = orjson.loads(trailing[_DETAIL])["error"]["code"]
    except (ValueError, KeyError, TypeError):
        code = ""
    return f"{error.code().name} {code}".strip()
