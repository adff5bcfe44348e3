"""Closed and open loops against scripted servers: what is counted, kept and tried again."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import orjson
import pytest
from live_server import until
from scripted_peer import grpc_peer, http_peer, json_response, post, respond

from pressroom.bench_grpc import GrpcLine, open_channel
from pressroom.bench_http import LOST, HttpLine, Outcome, read_chunks
from pressroom.bench_load import KEEP_EVERY, NOT_SENT, Arrivals, Load, Tally, closed_loop, open_loop


async def answers(port, *requests):
    """Outcomes of requests sent one after another on one line, opened again where the server ended it."""
    line, outcomes = HttpLine("127.0.0.1", port), []
    for request in requests:
        if not line.usable:
            await line.open()
        answer = asyncio.get_running_loop().create_future()
        line.ask(request, answer.set_result)
        outcomes.append(await asyncio.wait_for(answer, 10))
    line.close()
    return outcomes


async def test_an_answer_is_read_however_it_is_framed_and_cut():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    framings = {
        b"length": respond("200 OK", b"abcde"),
        b"chunks": chunked,
        b"end": b"HTTP/1.1 200 OK\r\n\r\nabcde",
        b"nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    }

    async def script(path, body, writer):
        whole = framings[body]
        for at in range(0, len(whole), 4):
            writer.write(whole[at : at + 4])
            await writer.drain()
            await asyncio.sleep(0)
        if body == b"end":
            writer.close()

    async with http_peer(script) as port:
        found = await answers(port, *(post(name) for name in framings))
    assert [outcome.body for outcome in found] == [b"abcde", b"abcde", b"abcde", b""]
    assert {outcome.failure for outcome in found} == {""}


@pytest.mark.parametrize("missing", range(1, 14))
def test_chunks_that_are_not_all_there_are_waited_for(missing):
    whole = b"3\r\nabc\r\n0\r\n\r\n"
    assert read_chunks(whole, 0) == b"abc"
    assert read_chunks(whole[:-missing], 0) is None


async def test_an_answer_that_closes_the_connection_is_good_and_the_next_request_opens_another():
    script = lambda path, body, writer: writer.write(respond("200 OK", body, "Connection: close"))  # noqa: E731
    async with http_peer(script) as port:
        found = await answers(port, post(b"1"), post(b"2"))
    assert [outcome.body for outcome in found] == [b"1", b"2"]


async def test_closed_clients_count_good_answers_and_keep_a_sample():
    async with http_peer(lambda path, body, writer: writer.write(respond("200 OK", b"=" + body))) as port:
        tally = Tally([post(str(i).encode()) for i in range(10)])
        async with closed_loop(tally, partial(HttpLine, "127.0.0.1", port), 3):
            await until(lambda: len(tally.window.latencies) > 2 * KEEP_EVERY)
    window = tally.turn()
    assert window.failed.total() == 0
    assert min(window.latencies) > 0
    assert len(tally.kept) == (len(window.latencies) + KEEP_EVERY - 1) // KEEP_EVERY
    assert all(outcome.body == b"=%d" % index for index, outcome in tally.kept)


async def test_refusals_are_counted_by_status_and_code_with_what_the_first_said():
    full = {"error": {"code": "queue_full", "message": "come back later"}}
    script = [json_response(full, "429 Too Many Requests"), respond("503 Busy", b"no envelope"), respond("200 OK", b"")]

    def answer(path, body, writer):
        writer.write(script[int(body)])

    async with http_peer(answer) as port:
        tally = Tally([post(str(i).encode()) for i in range(3)])
        async with closed_loop(tally, partial(HttpLine, "127.0.0.1", port), 1):
            await until(lambda: len(tally.window.latencies) >= 5)
    failed = tally.window.failed
    assert failed.keys() == {"429 queue_full", "503"}
    assert failed["429 queue_full"] >= 5
    assert tally.first_said == {"429 queue_full": "come back later", "503": "no envelope"}


async def test_a_connection_cut_under_a_request_is_a_failure_and_the_client_goes_on():
    asked = []

    def answer(path, body, writer):
        asked.append(body)
        if len(asked) % 2:
            writer.transport.abort()
        else:
            writer.write(respond("200 OK", b""))

    async with http_peer(answer) as port:
        tally = Tally([post()])
        async with closed_loop(tally, partial(HttpLine, "127.0.0.1", port), 1):
            await until(lambda: len(tally.window.latencies) >= 3)
    assert set(tally.window.failed) == {LOST}
    assert tally.window.failed[LOST] >= 3


async def test_a_server_that_is_gone_counts_as_no_connection():
    async with http_peer(lambda *_: None) as port:
        pass
    tally = Tally([post()])
    async with closed_loop(tally, partial(HttpLine, "127.0.0.1", port), 1):
        await until(lambda: tally.window.failed)
    assert set(tally.window.failed) == {"no connection"}


async def test_an_open_loop_sends_though_nothing_is_answered_and_says_what_it_could_not_send(monkeypatch):
    monkeypatch.setattr("pressroom.bench_load.MOST_IN_FLIGHT", 5)
    held = asyncio.Event()

    async def answer(path, body, writer):
        await held.wait()
        writer.write(respond("200 OK", b""))

    async with http_peer(answer) as port:
        tally = Tally([post()])
        async with open_loop(tally, partial(HttpLine, "127.0.0.1", port), 500, seed=1):
            await until(lambda: tally.window.failed[NOT_SENT] >= 20)
            assert len(tally.window.latencies) == 0
            held.set()
            await until(lambda: len(tally.window.latencies) >= 5)
    assert set(tally.window.failed) == {NOT_SENT}


async def test_an_open_loop_keeps_its_mean_rate_and_catches_up(monkeypatch):
    """Twenty seconds on a clock of our own, on which every tenth sleep lasts 50 ms too long."""
    clock, sent, sleeps = [0.0], [], []

    async def sleep(seconds):
        sleeps.append(seconds)
        clock[0] += seconds + (0.05 if len(sleeps) % 10 == 0 else 0.0)
        if clock[0] > 20:
            raise asyncio.CancelledError

    monkeypatch.setattr("pressroom.bench_load.perf_counter", lambda: clock[0])
    monkeypatch.setattr("pressroom.bench_load.asyncio.sleep", sleep)
    tally = Tally([post()])
    arrivals = Arrivals(tally, lambda: None, 50.0, seed=3)
    monkeypatch.setattr(arrivals, "_send", lambda: sent.append(clock[0]))
    with pytest.raises(asyncio.CancelledError):
        await arrivals.run()
    assert len(sent) == pytest.approx(50 * 20, rel=0.1)
    assert tally.window.lateness == pytest.approx(0.05)


async def test_grpc_clients_read_the_status_and_the_code():
    document = orjson.dumps({"error": {"code": "queue_full"}})

    async def infer(request, context):
        if request == b"bad":
            context.set_trailing_metadata((("pressroom-error-bin", document),))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
        return b"=" + request

    async with grpc_peer(infer) as port:
        channel = open_channel(f"127.0.0.1:{port}", None, tls=False)
        tally = Tally([b"good", b"bad"])
        async with closed_loop(tally, lambda: GrpcLine(channel), 2):
            await until(lambda: tally.window.failed.total() > 2 and len(tally.window.latencies) > 2)
        await channel.close()
    assert set(tally.window.failed) == {"RESOURCE_EXHAUSTED queue_full"}
    assert tally.first_said == {"RESOURCE_EXHAUSTED queue_full": "full"}
    assert tally.kept[0] == (0, Outcome("", b"", b"=good"))


def test_loads_are_called_by_what_they_are():
    assert [str(load) for load in (Load(clients=1), Load(clients=16), Load(rate=12.5))] == [
        "1 client",
        "16 clients",
        "12.5/s",
    ]
