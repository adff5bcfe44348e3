"""grpcio's client against our transport: every kind of call, messages of every size, statuses, streams, the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from http2_peer import LIMITS
from live_server import until

from services.core.http2.connection import Limits
from services.core.http2.server import Http2Server

LARGE = 3_000_000  # bytes: many windows, many frames


class Handlers:
    """One call of every kind."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def echo(self, raw: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("x-length", str(len(raw))), ("x-raw-bin", b"\x00\xff")))
        return raw

    async def count(self, raw: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(int(raw)):
            yield str(number).encode()

    async def talk(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for raw in requests:
            yield raw.upper()

    async def total(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        return str(sum([len(raw) async for raw in requests])).encode()

    async def refuse(self, raw: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "so nicht: 100 % Käse\n", (("x-why-bin", raw),))
        raise AssertionError("abort raises")

    async def fail(self, raw: bytes, context: Any) -> bytes:
        raise ValueError("a secret")

    async def wait(self, raw: bytes, context: Any) -> bytes:
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return b"waited"


@pytest.fixture
async def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
async def server(handlers: Handlers) -> Http2Server:
    server = Http2Server(Limits(max_message=2 * LARGE, max_streams=LIMITS.max_streams, upload_seconds=30.0))
    methods = {
        "Echo": grpc.unary_unary_rpc_method_handler(handlers.echo),
        "Count": grpc.unary_stream_rpc_method_handler(handlers.count),
        "Talk": grpc.stream_stream_rpc_method_handler(handlers.talk),
        "Total": grpc.stream_unary_rpc_method_handler(handlers.total),
        "Refuse": grpc.unary_unary_rpc_method_handler(handlers.refuse),
        "Fail": grpc.unary_unary_rpc_method_handler(handlers.fail),
        "Wait": grpc.unary_unary_rpc_method_handler(handlers.wait),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", methods),))
    return server


@pytest.fixture
async def port(server: Http2Server) -> AsyncIterator[int]:
    port = server.bind("127.0.0.1", 0, shared=False, tls=None)
    await server.start()
    yield port
    await server.stop(0)


@pytest.fixture
async def channel(port: int) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        yield channel


@pytest.mark.parametrize("size", [0, 1, 4000, 16_384, 65_535, LARGE])
async def test_a_message_of_any_size_comes_back_as_it_was(channel: grpc.aio.Channel, size: int) -> None:
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)
    call = channel.unary_unary("/test.Test/Echo")(message, timeout=30)
    assert await call == message
    trailing = dict(tuple(item) for item in await call.trailing_metadata())
    assert trailing == {"x-length": str(size), "x-raw-bin": b"\x00\xff"}


async def test_compressed_messages_are_understood(channel: grpc.aio.Channel) -> None:
    echo = channel.unary_unary("/test.Test/Echo")
    assert await echo(b"a" * 10_000, compression=grpc.Compression.Gzip, timeout=30) == b"a" * 10_000


async def test_many_calls_at_once_wait_for_their_turn_and_are_all_answered(channel: grpc.aio.Channel) -> None:
    echo = channel.unary_unary("/test.Test/Echo")
    answers = await asyncio.gather(*(echo(str(i).encode(), timeout=30) for i in range(200)))
    assert answers == [str(i).encode() for i in range(200)]


async def test_streams_of_every_direction(channel: grpc.aio.Channel) -> None:
    numbers = [raw async for raw in channel.unary_stream("/test.Test/Count")(b"500", timeout=30)]
    assert numbers == [str(i).encode() for i in range(500)]
    assert [raw async for raw in channel.unary_stream("/test.Test/Count")(b"0", timeout=30)] == []
    words = [b"a", b"b" * 200_000, b""]
    talk = channel.stream_stream("/test.Test/Talk")(iter(words), timeout=30)
    assert [raw async for raw in talk] == [word.upper() for word in words]
    assert await channel.stream_unary("/test.Test/Total")(iter([bytes(400_000)] * 8), timeout=30) == b"3200000"


async def test_an_answer_of_a_stream_comes_before_the_next_message_is_sent(channel: grpc.aio.Channel) -> None:
    talk = channel.stream_stream("/test.Test/Talk")(timeout=30)
    for word in (b"one", b"two"):
        await talk.write(word)
        assert await talk.read() == word.upper()
    await talk.done_writing()
    assert await talk.read() == grpc.aio.EOF


async def test_a_refusal_keeps_its_words_and_metadata(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/test.Test/Refuse")(b"\x01\x02", timeout=30)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert refused.value.details() == "so nicht: 100 % Käse\n"
    assert ("x-why-bin", b"\x01\x02") in [tuple(item) for item in refused.value.trailing_metadata()]


async def test_a_handler_that_fails_says_nothing_of_its_inside(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await channel.unary_unary("/test.Test/Fail")(b"", timeout=30)
    assert failed.value.code() is grpc.StatusCode.UNKNOWN
    assert "secret" not in failed.value.details()


async def test_an_unknown_call_is_unimplemented(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/test.Test/Nothing")(b"", timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_metadata_beyond_the_limit_is_refused_and_the_connection_goes_on(channel: grpc.aio.Channel) -> None:
    echo = channel.unary_unary("/test.Test/Echo")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await echo(b"", metadata=(("x-large", "v" * 20_000),), timeout=30)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await echo(b"next", timeout=30) == b"next"


async def test_a_caller_who_cancels_or_runs_out_of_time_cancels_the_handler(
    channel: grpc.aio.Channel, handlers: Handlers
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as late:
        await channel.unary_unary("/test.Test/Wait")(b"", timeout=0.05)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(10):
        await handlers.cancelled.wait()


async def test_a_server_that_stops_finishes_running_calls(
    server: Http2Server, channel: grpc.aio.Channel, handlers: Handlers
) -> None:
    call = channel.unary_unary("/test.Test/Wait")(b"", timeout=30)
    await until(lambda: any(connection._calls for connection in server._connections))
    stopping = asyncio.create_task(server.stop(10))
    await asyncio.sleep(0)
    handlers.may_answer.set()
    assert await call == b"waited"
    await stopping


async def test_a_port_that_is_taken_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"):
        Http2Server(LIMITS).bind("127.0.0.1", port, shared=False, tls=None)
