"""HTTP/2 as callers may send it: in pieces, out of order, padded, or against the rules; none of it harms the others."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import grpc
import pytest
from http2_peer import LIMITS, Frame, Peer, enclosed
from hypothesis import given, settings
from hypothesis import strategies as st
from live_server import until

from services.core.http2 import connection as module
from services.core.http2 import frames
from services.core.http2.frames import Code
from services.core.http2.server import Http2Server


class Echo:
    """Answers with what it was sent, once it may; counts who comes and who is cancelled."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.began = self.cancelled = 0
        self.metadata: Any = ()

    async def __call__(self, raw: bytes, context: Any) -> bytes:
        self.began += 1
        self.metadata = context.invocation_metadata()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return raw


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def server(echo: Echo) -> Http2Server:
    server = Http2Server(LIMITS)
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", methods),))
    return server


@pytest.fixture
async def peer(server: Http2Server) -> Peer:
    return Peer(server)


async def test_a_call_is_answered_by_headers_message_and_status_in_one_write(peer: Peer) -> None:
    peer.call(1, b"hello")
    await until(lambda: peer.wire.writes)
    assert len(peer.wire.writes) == 1
    assert [(f.kind, f.flags, f.stream) for f in peer.read()] == [
        (frames.HEADERS, frames.END_HEADERS, 1), (frames.DATA, 0, 1),
        (frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1),
    ]  # fmt: skip


async def test_calls_answered_together_share_a_write(peer: Peer, echo: Echo) -> None:
    echo.may_answer.clear()
    for stream in (1, 3, 5):
        peer.call(stream, b"hello")
    await until(lambda: echo.began == 3)
    echo.may_answer.set()
    await until(lambda: peer.wire.writes)
    assert len(peer.wire.writes) == 1
    assert [f.stream for f in peer.read() if f.kind == frames.DATA] == [1, 3, 5]


async def test_what_is_too_much_to_hold_is_written_at_once(peer: Peer) -> None:
    peer.connection.write(bytes(40_000))
    assert peer.wire.writes == []
    peer.connection.write(bytes(40_000))
    assert [len(written) for written in peer.wire.writes] == [80_000]
    peer.connection._flush()
    assert len(peer.wire.writes) == 1


async def test_a_call_that_comes_byte_by_byte_is_the_same_call(server: Http2Server) -> None:
    peer = Peer(server, opened=False)
    call = frames.frame(frames.HEADERS, frames.END_HEADERS, 1, peer.block())
    call += frames.frame(frames.DATA, frames.END_STREAM, 1, enclosed(b"slowly"))
    for byte in frames.PREFACE + frames.settings({}) + call:
        peer.send(bytes([byte]))
    assert await peer.answer() == (enclosed(b"slowly"), {"grpc-status": "0"})


async def test_padding_priorities_and_continued_headers_are_read(peer: Peer) -> None:
    block = peer.block(x_key="v" * 300)
    begin = bytes([7]) + bytes(5) + block[:20] + bytes(7)
    peer.send(frames.frame(frames.HEADERS, frames.PADDED | frames.PRIORITIZED, 1, begin))
    peer.send(frames.frame(frames.CONTINUATION, 0, 1, block[20:40]))
    peer.send(frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[40:]))
    padded = bytes([3]) + enclosed(b"padded") + bytes(3)
    peer.send(frames.frame(frames.DATA, frames.PADDED | frames.END_STREAM, 1, padded))
    assert (await peer.answer())[0] == enclosed(b"padded")


async def test_repeated_headers_mean_what_they_meant_until_the_table_changes(peer: Peer, echo: Echo) -> None:
    for stream, sent in ((1, "a"), (3, "a"), (5, "b"), (7, "b"), (9, "a"), (11, "a")):
        peer.call(stream, b"", x_key=sent)
        await peer.answer()
        assert dict(echo.metadata) == {"x-key": sent}


async def test_metadata_that_ends_in_bin_is_bytes(peer: Peer, echo: Echo) -> None:
    peer.call(1, b"", x_raw_bin="AAH/", user_agent="test")
    await peer.answer()
    assert echo.metadata == (("x-raw-bin", b"\x00\x01\xff"), ("user-agent", "test"))


async def test_an_answer_waits_for_room_and_takes_no_more_than_there_is(server: Http2Server) -> None:
    peer = Peer(server, opened=False)
    peer.send(frames.PREFACE + frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 10}))
    peer.call(1, b"x" * 30)
    await until(lambda: sum(len(f) for f in peer.wire.writes) and any(b"xxxxx" in w for w in peer.wire.writes))
    assert sum(len(f.payload) for f in peer.read() if f.kind == frames.DATA) == 10
    peer.send(frames.window_update(1, 5))
    await until(lambda: peer.wire.writes)
    assert [len(f.payload) for f in peer.read()] == [5]
    peer.send(frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 1000}))
    body, trailers = await peer.answer()
    assert (len(body), trailers) == (20, {"grpc-status": "0"})


async def test_a_large_message_is_given_room_while_it_comes(server: Http2Server, peer: Peer) -> None:
    message = enclosed(b"y" * 90_000)
    peer.headers(1)
    given = 0
    for at in range(0, len(message), 16_000):
        end = frames.END_STREAM if at + 16_000 >= len(message) else 0
        peer.send(frames.frame(frames.DATA, end, 1, message[at : at + 16_000]))
        given += sum(int.from_bytes(f.payload, "big") for f in peer.read() if f.kind == frames.WINDOW_UPDATE)
    assert given > frames.INITIAL_WINDOW
    peer.send(frames.window_update(0, 100_000) + frames.window_update(1, 100_000))
    assert (await peer.answer())[0] == message


async def test_compressed_messages_are_read_and_only_as_far_as_the_limit(peer: Peer) -> None:
    for stream, encoding, plain, status in (
        (1, "gzip", b"z" * 1000, "0"),
        (3, "gzip", b"z" * (LIMITS.max_message + 1), "8"),
        (5, "snappy", b"z", "12"),
    ):
        peer.headers(stream, grpc_encoding=encoding)
        data = enclosed(gzip.compress(plain), compressed=True)
        peer.send(frames.frame(frames.DATA, frames.END_STREAM, stream, data))
        body, trailers = await peer.answer()
        assert trailers["grpc-status"] == status
        assert body == (enclosed(plain) if status == "0" else b"")


async def test_a_message_beyond_the_limit_is_refused_at_its_first_bytes(peer: Peer, echo: Echo) -> None:
    peer.headers(1)
    peer.send(frames.frame(frames.DATA, 0, 1, b"\0" + (LIMITS.max_message + 1).to_bytes(4, "big")))
    refusal, end = peer.read()
    assert dict(peer.decoder.decode(refusal.payload))["grpc-status"] == "8"
    assert (end.kind, end.payload) == (frames.RST_STREAM, bytes(4))
    peer.send(frames.frame(frames.DATA, frames.END_STREAM, 1, b"what was on its way"))
    peer.call(3, b"next")
    assert (await peer.answer())[0] == enclosed(b"next")
    assert echo.began == 1


async def test_a_call_of_no_or_two_or_torn_messages_is_an_invalid_argument(peer: Peer, echo: Echo) -> None:
    for stream, data in ((1, b""), (3, enclosed(b"a") + enclosed(b"b")), (5, enclosed(b"torn")[:-1])):
        peer.headers(stream)
        peer.send(frames.frame(frames.DATA, frames.END_STREAM, stream, data))
        assert (await peer.answer())[1]["grpc-status"] == "3"
    assert echo.began == 0


@pytest.mark.parametrize(("sent", "status"), [({":method": "GET"}, "405"), ({"content_type": "text/html"}, "415")])
async def test_what_is_no_grpc_call_gets_an_http_status(peer: Peer, sent: dict[str, str], status: str) -> None:
    peer.headers(1, flags=frames.END_HEADERS | frames.END_STREAM, **sent)
    assert await peer.answer() == (b"", {":status": status})


async def test_a_reset_and_a_lost_connection_cancel_the_handler(peer: Peer, echo: Echo) -> None:
    echo.may_answer.clear()
    peer.call(1)
    peer.call(3)
    await until(lambda: echo.began == 2)
    peer.send(frames.reset(1, Code.CANCEL))
    await until(lambda: echo.cancelled == 1)
    peer.connection.connection_lost(None)
    await until(lambda: echo.cancelled == 2)
    assert peer.read() == []


async def test_more_calls_at_once_than_allowed_are_refused_unseen(peer: Peer, echo: Echo) -> None:
    echo.may_answer.clear()
    for stream in range(1, 2 * LIMITS.max_streams + 2, 2):
        peer.call(stream)
    assert peer.read() == [Frame(frames.RST_STREAM, 0, 2 * LIMITS.max_streams + 1, bytes([0, 0, 0, 7]))]
    echo.may_answer.set()
    assert (await peer.answer())[1] == {"grpc-status": "0"}


async def test_a_draining_server_finishes_what_it_took_and_leaves_the_rest_to_others(
    server: Http2Server, peer: Peer, echo: Echo
) -> None:
    echo.may_answer.clear()
    peer.call(1, b"taken")
    await until(lambda: echo.began)
    stopping = asyncio.create_task(server.stop(10))
    await until(lambda: peer.wire.writes)
    assert peer.goaway() == (1, Code.NO_ERROR)
    peer.call(3, b"too late")
    echo.may_answer.set()
    assert (await peer.answer())[0] == enclosed(b"taken")
    await until(lambda: peer.wire.closed)
    peer.connection.connection_lost(None)
    await stopping
    assert echo.began == 1


async def test_a_call_past_its_deadline_is_ended_and_its_handler_cancelled(
    peer: Peer, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo.may_answer.clear()
    peer.call(1, grpc_timeout="1m")
    await until(lambda: echo.began)
    await asyncio.sleep(0.002)
    peer.connection._sweep()
    assert (await peer.answer())[1]["grpc-status"] == "4"
    await until(lambda: echo.cancelled == 1)


async def test_a_message_that_does_not_come_is_not_waited_for_for_ever(echo: Echo) -> None:
    server = Http2Server(module.Limits(max_message=10, max_streams=1, upload_seconds=0.0))
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Test", methods),))
    peer = Peer(server)
    peer.headers(1)
    await asyncio.sleep(0.001)
    peer.connection._sweep()
    assert (await peer.answer())[1]["grpc-status"] == "4"


async def test_a_preface_that_does_not_come_ends_the_connection(
    server: Http2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.0)
    peer = Peer(server, opened=False)
    await asyncio.sleep(0.001)
    peer.connection._sweep()
    assert peer.goaway()[1] is Code.ENHANCE_YOUR_CALM
    assert peer.wire.closed


async def test_pings_and_settings_are_acknowledged_and_unknown_frames_ignored(peer: Peer) -> None:
    peer.send(frames.frame(frames.PING, 0, 0, b"12345678") + frames.frame(0xEE, 0, 9, b"?") + frames.settings({}))
    assert peer.read() == [
        Frame(frames.PING, frames.ACK, 0, b"12345678"),
        Frame(frames.SETTINGS, frames.ACK, 0, b""),
    ]


def again(count: int, *parts: bytes) -> bytes:
    return b"".join(parts) * count


BROKEN = {
    "a frame beyond the size allowed": (frames.header(frames.DATA, 0, 1, module.MAX_FRAME + 1), Code.FRAME_SIZE_ERROR),
    "data on a stream never opened": (frames.frame(frames.DATA, 0, 7, b"x"), Code.PROTOCOL_ERROR),
    "a header block that is none": (frames.frame(frames.HEADERS, 4, 1, b"\xff\xff\xff"), Code.COMPRESSION_ERROR),
    "an even stream": (frames.frame(frames.HEADERS, 4, 2, b"\x83"), Code.PROTOCOL_ERROR),
    "a header block interrupted": (
        frames.frame(frames.HEADERS, 0, 1, b"\x83") + frames.frame(frames.PING, 0, 0, bytes(8)), Code.PROTOCOL_ERROR,
    ),
    "continuation of nothing": (frames.frame(frames.CONTINUATION, 4, 1, b"\x83"), Code.PROTOCOL_ERROR),
    "headers without end": (
        frames.frame(frames.HEADERS, 0, 1, b"\x83") + again(9, frames.frame(frames.CONTINUATION, 0, 1, bytes(8000))),
        Code.ENHANCE_YOUR_CALM,
    ),
    "a window beyond all measure": (frames.window_update(0, 2**31 - 1), Code.FLOW_CONTROL_ERROR),
    "a window update by nothing": (frames.window_update(0, 0), Code.FLOW_CONTROL_ERROR),
    "an initial window beyond all measure": (
        frames.settings({frames.Setting.INITIAL_WINDOW_SIZE: 2**31}), Code.FLOW_CONTROL_ERROR,
    ),
    "settings of odd size": (frames.frame(frames.SETTINGS, 0, 0, b"x"), Code.FRAME_SIZE_ERROR),
    "a frame size out of range": (frames.settings({frames.Setting.MAX_FRAME_SIZE: 1}), Code.PROTOCOL_ERROR),
    "a ping of seven bytes": (frames.frame(frames.PING, 0, 0, bytes(7)), Code.PROTOCOL_ERROR),
    "a reset of a stream never opened": (frames.reset(9, Code.CANCEL), Code.PROTOCOL_ERROR),
    "a push": (frames.frame(frames.PUSH_PROMISE, 0, 1, bytes(4)), Code.PROTOCOL_ERROR),
    "a flood of pings": (
        again(module.NUISANCES + 1, frames.frame(frames.PING, 0, 0, bytes(8))), Code.ENHANCE_YOUR_CALM,
    ),
    "a flood of settings": (again(module.NUISANCES + 1, frames.settings({})), Code.ENHANCE_YOUR_CALM),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_rule_ends_the_connection_by_its_code(peer: Peer, name: str) -> None:
    data, code = BROKEN[name]
    peer.send(data)
    assert peer.goaway()[1] is code
    assert peer.wire.closed


async def test_calls_begun_and_reset_in_a_flood_end_the_connection(peer: Peer, echo: Echo) -> None:
    stream = 1
    while not peer.wire.closed:
        peer.call(stream)
        peer.send(frames.reset(stream, Code.CANCEL))
        stream += 2
    assert peer.goaway()[1] is Code.ENHANCE_YOUR_CALM
    assert stream < 2 * module.NUISANCES + 100


async def test_http_1_is_told_that_this_is_http_2(server: Http2Server) -> None:
    peer = Peer(server, opened=False)
    peer.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
    assert peer.goaway()[1] is Code.PROTOCOL_ERROR


_FRAMES = st.builds(
    frames.frame, st.integers(0, 12), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=40)
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_FRAMES | st.binary(max_size=20), max_size=12))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    async def hear_them() -> None:
        server = Http2Server(LIMITS)
        peer = Peer(server)
        peer.headers(1)
        for piece in pieces:
            peer.send(piece)
        peer.connection.connection_lost(None)

    asyncio.run(hear_them())
