"""The cheap gRPC line against grpcio's own server."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from scripted_peer import grpc_peer

from benchmarks.http2_line import Http2Line, grpc_message


@pytest.fixture
async def line():
    """A line to a server that answers `=` and the message, and refuses `bad`."""

    async def infer(request, context):
        if request == b"bad":
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return b"=" + request

    async with grpc_peer(infer) as port:
        opened = Http2Line("127.0.0.1", port)
        await opened.open()
        yield opened
        opened.close()


async def _ask(line, raw):
    answer = asyncio.get_running_loop().create_future()
    line.ask(grpc_message(raw), answer.set_result)
    async with asyncio.timeout(10):
        return await answer


async def test_messages_come_back_and_statuses_are_read(line):
    for raw in (b"a", b"", b"bad", b"b" * 100, b"bad"):
        answer = await _ask(line, raw)
        if raw == b"bad":
            assert (answer.failure, answer.body) == ("RESOURCE_EXHAUSTED", b"full")
        else:
            assert (answer.failure, answer.body) == ("", b"=" + raw)


async def test_messages_beyond_every_window_are_sent_in_parts_as_room_comes(line):
    raw = bytes(range(256)) * 12_000  # 3 MB: windows begin at 64 KiB
    for _ in range(3):
        answer = await _ask(line, raw)
        assert answer.failure == ""
        assert answer.body == b"=" + raw


async def test_a_method_nobody_has_is_a_failure(line):
    other = Http2Line(*line._where, method="/inference.GRPCInferenceService/Nothing")
    await other.open()
    answer = await _ask(other, b"a")
    other.close()
    assert answer.failure == "UNIMPLEMENTED"


async def test_a_server_that_leaves_answers_nothing_any_more():
    async def hang_up(reader, writer):
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        line = Http2Line("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(OSError, match="connection lost"):
            await line.open()
        assert not line.usable
