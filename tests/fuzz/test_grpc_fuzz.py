"""Thousands of random gRPC calls: none ends UNKNOWN or INTERNAL, none kills the server or stays in its memory."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import etth1
import grpc
import numpy as np
import psutil
from live_server import LiveServer, eventually
from tritonclient.grpc import service_pb2

from services.core.errors import CODES

from .random_calls import SERVICE, RandomCall, random_call

SEED = 20
CALLS = 5000
AT_ONCE = 32
GROWTH_BYTES = 64 * 2**20
_FINE = {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "PERMISSION_DENIED",
    "DEADLINE_EXCEEDED", "CANCELLED",
}  # fmt: skip
_FAULTS = {"internal", "inference_failed", "circuit_open", "shutting_down", "model_not_ready"}


def check_error(text: str | bytes, call: RandomCall) -> None:
    """An envelope of a known code that is no fault of ours."""
    error = json.loads(text)["error"]
    assert error["code"] in CODES.keys() - _FAULTS, (error, call)
    assert error.keys() - {"retry_after_ms"} == {"code", "message", "field", "hint", "request_id"}


async def _messages(call: RandomCall) -> AsyncIterator[bytes]:
    for message in call.messages:
        yield message


async def _answers(channel: grpc.aio.Channel, call: RandomCall) -> list[bytes]:
    """The answers of a call; hangs up when the caller does."""
    options: dict[str, Any] = {"timeout": call.timeout, "metadata": call.metadata}
    if not call.streams:
        return [await asyncio.wait_for(channel.unary_unary(call.path)(call.messages[0], **options), call.cancel)]
    running = channel.stream_stream(call.path)(_messages(call), **options)
    hang_up_after = 0.05 if call.path.endswith("Watch") else call.cancel
    try:
        async with asyncio.timeout(hang_up_after):
            return [answer async for answer in running]
    finally:
        running.cancel()


async def _status(channel: grpc.aio.Channel, call: RandomCall) -> str:
    """How a call ended; its envelopes are checked."""
    try:
        answers = await _answers(channel, call)
    except (TimeoutError, asyncio.CancelledError):  # the latter: grpcio cancels a stream it cannot write to
        return "hung up"
    except grpc.aio.AioRpcError as refused:
        if "execute_batch" in refused.debug_error_string():
            return "not sent"  # grpcio's own word for a stream whose deadline passed before its first message left
        trailing = dict(refused.trailing_metadata() or ())
        if "pressroom-error-bin" in trailing:
            check_error(trailing["pressroom-error-bin"], call)
        assert refused.code().name in _FINE, (refused.code(), refused.details(), call)
        return str(refused.code().name)
    if call.path == f"{SERVICE}ModelStreamInfer":
        for answer in map(service_pb2.ModelStreamInferResponse.FromString, answers):
            if answer.error_message:
                check_error(answer.error_message, call)
    return "OK"


async def _send_all(server: LiveServer, calls: list[RandomCall]) -> Counter[str]:
    """The calls over four channels, so many at once."""
    statuses: Counter[str] = Counter()
    waiting = iter(calls)
    channels = [grpc.aio.insecure_channel(server.grpc_address, [("grpc.channel_id", i)]) for i in range(4)]

    async def worker(channel: grpc.aio.Channel) -> None:
        for call in waiting:
            statuses[await _status(channel, call)] += 1

    await asyncio.gather(*(worker(channels[i % 4]) for i in range(AT_ONCE)))
    for channel in channels:
        await channel.close()
    return statuses


def _memory(server: LiveServer) -> int:
    """Resident bytes of the server's worker processes."""
    return sum(psutil.Process(pid).memory_info().rss for pid in server.children())


def _forecast(server: LiveServer) -> np.ndarray:
    answer = server.post(etth1.FORECAST, json=etth1.request())
    assert answer.status_code == 200, answer.text
    return etth1.forecast_of(answer.json()["series"][0])


async def test_no_random_call_is_a_fault_and_the_server_is_as_before(server: LiveServer) -> None:
    draw = random.Random(SEED)
    calls = [random_call(draw) for _ in range(CALLS)]
    before = _forecast(server)
    workers = server.children()
    warm = await _send_all(server, calls[: CALLS // 5])
    memory = _memory(server)
    statuses = warm + await _send_all(server, calls[CALLS // 5 :])
    assert statuses.total() == CALLS
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "PERMISSION_DENIED"} <= statuses.keys()
    assert server.children() == workers, "a worker died"
    assert _memory(server) < memory + GROWTH_BYTES
    eventually(lambda: server.metric("pressroom_in_flight_requests", protocol="grpc") == 0, "no request is in flight")
    eventually(lambda: server.metric("pressroom_queue_rows") == 0, "the queues are empty")
    np.testing.assert_allclose(_forecast(server), before, rtol=1e-4, atol=1e-4)
