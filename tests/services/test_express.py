"""Requests that look like the one before them ride without a task, and nobody can tell from the outside."""

from __future__ import annotations

import asyncio
import gc

import grpc
import pytest
from live_server import until
from served_model import METHOD, UNLUCKY, message, numbers, served_model

from services.core.auth import hash_secret
from services.core.http.express import Ride


async def test_a_request_like_the_one_before_it_rides_and_is_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch) as served:
        connection = await served.connect()
        first, second, third = [await connection.ask(x) for x in (1.5, 2.5, -3.0)]
        assert len(served.rides) == 2
        assert [answer.y for answer in (first, second, third)] == [[3.0], [5.0], [-6.0]]
        assert first.headers.keys() == second.headers.keys()
        assert first.document.keys() == second.document.keys()
        assert first.document["parameters"].keys() == second.document["parameters"].keys()
        assert second.headers["x-request-id"] == second.document["parameters"]["request_id"]
        assert len({answer.headers["x-request-id"] for answer in (first, second, third)}) == 3


async def test_another_head_or_form_goes_the_ordinary_way_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch) as served:
        connection = await served.familiar()
        assert (await connection.ask(2.0, X_Request_Id="mine")).headers["x-request-id"] == "mine"
        assert (await connection.ask(2.0, 3.0)).y == [4.0, 6.0]
        assert served.rides == []
        assert (await connection.ask(5.0, 3.0)).y == [10.0, 6.0]
        assert len(served.rides) == 1


async def test_requests_sent_ahead_are_answered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch) as served:
        connection = await served.familiar()
        served.model.going.clear()
        connection.send(connection.request(2.0))
        await served.model.has_begun(2)
        assert len(served.rides) == 1
        connection.send(connection.request(3.0))
        connection.send(connection.request(4.0) + connection.request(5.0))
        served.model.going.set()
        assert [(await connection.answer()).y for _ in range(4)] == [[4.0], [6.0], [8.0], [10.0]]
        assert (await connection.ask(6.0)).y == [12.0]


async def test_answers_of_one_batch_are_all_made_before_the_first_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    make, write = Ride._send, Ride._write
    monkeypatch.setattr(Ride, "_send", lambda ride, response: (told.append("made"), make(ride, response)))
    monkeypatch.setattr(Ride, "_write", lambda ride, data: (told.append("sent"), write(ride, data)))
    async with served_model(monkeypatch) as served:
        first, *others = [await served.familiar() for _ in range(4)]
        served.model.going.clear()
        first.send(first.request(1.0))
        await served.model.has_begun(5)
        for caller, x in zip(others, (2.0, 3.0, 4.0), strict=True):
            caller.send(caller.request(x))
        await until(lambda: len(served.rides) == 4)
        served.model.going.set()
        assert [(await caller.answer()).y for caller in others] == [[4.0], [6.0], [8.0]]
    assert told == ["made", "sent", *["made"] * 3, *["sent"] * 3]


async def test_a_caller_who_leaves_between_its_answer_and_the_writing_harms_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = Ride._write
    async with served_model(monkeypatch) as served:
        connection, other = await served.familiar(), await served.familiar()
        monkeypatch.setattr(Ride, "_write", lambda ride, data: (ride._wire.transport.abort(), write(ride, data)))
        connection.send(connection.request(2.0))
        await until(lambda: len(served.http_connections) == 1)
        monkeypatch.setattr(Ride, "_write", write)
        assert (await other.ask(3.0)).y == [6.0]
        assert served.serving.gate._in_flight == 0


async def test_half_a_request_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch) as served:
        connection = await served.familiar()
        request = connection.request(2.0)
        (protocol,) = served.http_connections
        connection.send(request[:-2])
        await until(lambda: not protocol.cycle.response_complete)
        connection.send(request[-2:])
        assert (await connection.answer()).y == [4.0]
        assert served.rides == []


async def test_queued_work_of_a_caller_who_leaves_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch) as served:
        leaving, staying = await served.familiar(), await served.familiar()
        served.model.going.clear()
        staying.send(staying.request(2.0))
        await served.model.has_begun(3)
        leaving.send(leaving.request(3.0))
        await until(lambda: len(served.rides) >= 2)
        await leaving.close()
        await until(lambda: served.rides[1].done())
        served.model.going.set()
        assert (await staying.answer()).y == [4.0]
        assert (await staying.ask(4.0)).y == [8.0]
        assert [3.0] not in served.model.batches
        assert served.serving.gate._in_flight == 0


async def test_refusals_have_the_common_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch, max_queue_rows=1) as served:
        one, two, three = [await served.familiar() for _ in range(3)]
        unlucky = await one.ask(UNLUCKY)
        assert (unlucky.status, unlucky.document["error"]["code"]) == (500, "inference_failed")
        assert unlucky.document["error"]["request_id"] == unlucky.headers["x-request-id"]
        served.model.going.clear()
        one.send(one.request(2.0))
        await served.model.has_begun(5)
        two.send(two.request(3.0))
        await until(lambda: len(served.rides) >= 3)
        full = await three.ask(4.0)
        assert (full.status, full.document["error"]["code"], full.headers["retry-after"]) == (429, "queue_full", "1")
        served.model.going.set()
        assert [(await one.answer()).y, (await two.answer()).y] == [[4.0], [6.0]]
        assert (await three.ask(5.0)).y == [10.0]
        assert len(served.rides) == 5


async def test_the_deadline_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch, request_timeout_ms=300) as served:
        connection = await served.familiar()
        served.model.going.clear()
        late = await connection.ask(2.0)
        assert (late.status, late.document["error"]["code"]) == (504, "deadline_exceeded")
        served.model.going.set()
        assert (await connection.ask(3.0)).y == [6.0]
        assert len(served.rides) == 2


async def test_a_stopping_server_answers_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_model(monkeypatch) as served:
        connection = await served.familiar()
        served.model.going.clear()
        connection.send(connection.request(2.0))
        await served.model.has_begun(2)
        for open_one in list(served.http_connections):
            open_one.shutdown()  # what uvicorn does to every connection
        served.model.going.set()
        answer = await connection.answer()
        assert (answer.y, answer.headers["connection"]) == ([4.0], "close")
        assert await connection.ends()


async def test_keys_and_their_limits_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    entry = f'[[keys]]\nid = "k"\nsha256 = "{hash_secret("secret")}"\nscopes = ["infer"]\nrequests_per_minute = 3\n'
    keys.write_text(entry)
    async with served_model(monkeypatch, keys_file=str(keys)) as served:
        connection = await served.familiar(Authorization="Bearer secret")
        answers = [await connection.ask(2.0) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert [answer.headers["ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
        assert len(served.rides) == 2


async def test_rides_leave_nothing_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes by every hundred thousand objects: what waits for it is a hundred megabytes under load."""
    async with served_model(monkeypatch) as served:
        connection = await served.familiar()
        await connection.ask(2.0)
        served.rides.clear()
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await connection.ask(2.0)
            assert len(served.rides) == 50
            served.rides.clear()
            assert gc.collect() < 50
        finally:
            gc.enable()


async def test_grpc_messages_alike_ride_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        served_model(monkeypatch) as served,
        grpc.aio.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel,
    ):
        infer = channel.unary_unary(METHOD)
        assert [numbers(await infer(message(x))) for x in (1.0, 2.0, 3.0)] == [[2.0], [4.0], [6.0]]
        assert len(served.rides) == 2
        call = infer(message(4.0), metadata=(("x-request-id", "mine"),))
        assert numbers(await call) == [8.0]
        assert ("x-request-id", "mine") in tuple(await call.trailing_metadata())
        large = 40_000  # bytes beyond a frame and the caller's first window
        assert [numbers(await infer(message(x, width=large))) for x in (1.0, 2.0)] == [[2.0] * large, [4.0] * large]
        assert len(served.rides) == 4
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await infer(message(UNLUCKY))
        assert refused.value.code() is grpc.StatusCode.INTERNAL
        assert b'"inference_failed"' in dict(refused.value.trailing_metadata())["pressroom-error-bin"]


async def test_a_grpc_caller_who_leaves_or_is_late_lets_its_work_be_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        served_model(monkeypatch) as served,
        grpc.aio.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel,
    ):
        infer = channel.unary_unary(METHOD)
        await infer(message(1.0))
        served.model.going.clear()
        running = asyncio.ensure_future(infer(message(2.0)))
        await served.model.has_begun(2)
        leaving, late = infer(message(3.0)), infer(message(4.0), timeout=0.2)
        await until(lambda: len(served.rides) >= 3)
        leaving.cancel()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await late
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: all(ride.done() for ride in served.rides[1:]))
        assert served.model.batcher._queued_rows == 0
        served.model.going.set()
        assert numbers(await running) == [4.0]
        assert served.model.batches == [[1.0], [2.0]]
        assert served.serving.gate._in_flight == 0
