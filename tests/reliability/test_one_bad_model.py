"""Faults stay where they are: the guilty fails alone, a failing model pauses alone, a slow one refuses in time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from asking import refusal_of, rpc, rpc_output, rpc_refusal, rpc_refusal_of, stub
from live_server import eventually
from raw_http import RawConnection
from tiny_server import UNLUCKY, A, B, TinyServer, message, running_tiny

QUEUE_ROWS = 40
MAX_FAILURES = 4
COOLDOWN_SECONDS = 1.0
PLACES = 60


@pytest.fixture(scope="module")
def tiny(tiny_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyServer]:
    folder = tmp_path_factory.mktemp("tiny")
    limits = {
        "max_queue_rows": str(QUEUE_ROWS),
        "max_failures": str(MAX_FAILURES),
        "cooldown_seconds": str(COOLDOWN_SECONDS),
        "max_in_flight": str(PLACES),
        "max_delay_ms": "0",
        "models": f"{A}:1,{B}",
    }
    with running_tiny(tiny_home, folder, **limits) as running:
        yield running


@pytest.fixture(scope="module")
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(PLACES + 10) as pool:
        yield pool


def close_circuit(tiny: TinyServer) -> None:
    """Wait until the model answers again: one success closes its circuit."""
    eventually(lambda: tiny.ask(1).status_code == 200, "the model answers", 20)


def test_the_versions_named_are_served_and_the_newest_where_none_is(tiny: TinyServer) -> None:
    listed = tiny.server.get("/v1/models").json()["data"]
    assert {entry["id"]: entry["versions"] for entry in listed} == {A: ["1"], B: ["1"]}


def test_one_raising_request_fails_alone_in_its_batch(tiny: TinyServer, callers: ThreadPoolExecutor) -> None:
    """Ten requests wait together behind a held model; one of them makes the model raise."""
    with tiny.held():
        first = callers.submit(tiny.ask, 500.0)
        tiny.wait_until_run(500.0)
        together = {x: callers.submit(tiny.ask, x) for x in (501.0, 502.0, UNLUCKY, 503.0, 504.0, 505.0)}
        over_grpc = {x: callers.submit(rpc, tiny.server, "ModelInfer", message(x)) for x in (506.0, 507.0)}
        tiny.wait_until_queued(8)
    assert first.result().json()["y"] == [1000.0]
    guilty = refusal_of(together.pop(UNLUCKY).result())
    assert (guilty.status, guilty.code) == (500, "inference_failed")
    assert "unlucky" not in str(guilty.error)
    assert {x: answer.result().json()["y"] for x, answer in together.items()} == {x: [2 * x] for x in together}
    assert {x: rpc_output(a.result()).item() for x, a in over_grpc.items()} == {x: 2 * x for x in over_grpc}
    assert any({501.0, 502.0, UNLUCKY, 507.0} <= set(rows) for rows in tiny.runs())  # they did share a pass


def test_a_raising_item_fails_its_own_request_over_grpc(tiny: TinyServer) -> None:
    refusal = rpc_refusal(tiny.server, "ModelInfer", message(UNLUCKY))
    assert (refusal.status, refusal.code) == ("INTERNAL", "inference_failed")
    close_circuit(tiny)


def test_a_model_that_keeps_failing_is_given_a_pause_and_comes_back(tiny: TinyServer) -> None:
    server = tiny.server
    for _ in range(MAX_FAILURES):
        assert refusal_of(tiny.ask(UNLUCKY)).code == "inference_failed"
    runs = len(tiny.runs())
    refusal = refusal_of(tiny.ask(7.0))
    assert (refusal.status, refusal.code) == (503, "circuit_open")
    assert f"failed {MAX_FAILURES} times in a row" in refusal.error["message"]
    assert int(refusal.headers["retry-after"]) == 1
    assert 0 < refusal.error["retry_after_ms"] <= COOLDOWN_SECONDS * 1000
    assert rpc_refusal(server, "ModelInfer", message(7.0)).code == "circuit_open"
    assert len(tiny.runs()) == runs  # the model really has its pause
    assert tiny.ask(7.0, model=B).json()["y"] == [14.0]  # its neighbour has none
    assert server.get("/livez").status_code == server.get("/readyz").status_code == 200
    assert server.metric("pressroom_circuit_open", model=A) == 1
    assert server.metric("pressroom_circuit_open", model=B) == 0
    close_circuit(tiny)
    assert server.metric("pressroom_circuit_open", model=A) == 0
    assert tiny.ask(8.0).json()["y"] == [16.0]


def test_a_bad_request_does_not_count_as_a_failure_of_the_model(tiny: TinyServer) -> None:
    for _ in range(2 * MAX_FAILURES):
        assert tiny.server.post("/v1/tiny", json={"model": A, "x": 3}).status_code == 422
    assert tiny.ask(9.0).json()["y"] == [18.0]


def test_a_slow_model_with_a_full_queue_refuses_at_once_and_says_when_to_return(
    tiny: TinyServer, callers: ThreadPoolExecutor
) -> None:
    with tiny.held():
        running = callers.submit(tiny.ask, 600.0)
        tiny.wait_until_run(600.0)
        waiting = [callers.submit(tiny.ask, *[601.0] * 10) for _ in range(QUEUE_ROWS // 10)]
        tiny.wait_until_queued(QUEUE_ROWS)
        refusal = refusal_of(tiny.ask(602.0))
        assert (refusal.status, refusal.code) == (429, "queue_full")
        assert int(refusal.headers["retry-after"]) >= 1
        assert refusal.error["retry_after_ms"] >= 50
        refused = rpc_refusal(tiny.server, "ModelInfer", message(602.0))
        assert (refused.status, refused.code) == ("RESOURCE_EXHAUSTED", "queue_full")
        assert int(refused.headers["retry-after-ms"]) >= 50
        assert tiny.ask(602.0, model=B).status_code == 200
        assert tiny.server.get("/readyz").status_code == 200
    assert [answer.result().status_code for answer in [running, *waiting]] == [200] * (1 + len(waiting))
    assert tiny.times_run(602.0) == 0
    assert tiny.queued() == 0


def test_a_request_that_expires_in_the_queue_is_never_run(tiny: TinyServer, callers: ThreadPoolExecutor) -> None:
    with tiny.held():
        running = callers.submit(tiny.ask, 700.0)
        tiny.wait_until_run(700.0)
        refusal = refusal_of(tiny.ask(701.0, headers={"X-Request-Timeout-Ms": "100"}))
        assert (refusal.status, refusal.code) == (504, "deadline_exceeded")
        with pytest.raises(grpc.RpcError) as late:
            rpc(tiny.server, "ModelInfer", message(702.0), timeout=0.2)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        eventually(lambda: tiny.queued() == 0, "the expired work has left the queue")
    assert running.result().status_code == 200
    assert tiny.ask(703.0).status_code == 200
    assert tiny.times_run(701.0) == tiny.times_run(702.0) == 0


def test_work_whose_caller_went_away_is_never_run(tiny: TinyServer, callers: ThreadPoolExecutor) -> None:
    body = b'{"model": "tiny-a", "x": [711.0]}'
    with tiny.held():
        running = callers.submit(tiny.ask, 710.0)
        tiny.wait_until_run(710.0)
        with RawConnection(tiny.server) as caller:
            caller.post("/v1/tiny", body, Content_Type="application/json")
            tiny.wait_until_queued(1)
        with stub(tiny.server) as calls:
            call = calls.ModelInfer.future(message(712.0), timeout=30)
            eventually(lambda: tiny.server.metric("pressroom_in_flight_requests", protocol="grpc") == 1, "it is there")
            call.cancel()
            tiny.wait_until_queued(0)
    assert running.result().status_code == 200
    assert tiny.ask(713.0).status_code == 200
    assert tiny.times_run(711.0) == tiny.times_run(712.0) == 0


def test_abandoned_calls_by_the_thousand_leave_nothing_behind(tiny: TinyServer, callers: ThreadPoolExecutor) -> None:
    with tiny.held():
        running = callers.submit(tiny.ask, 720.0)
        tiny.wait_until_run(720.0)
        with stub(tiny.server) as calls:
            for _ in range(100):
                futures = [calls.ModelInfer.future(message(721.0), timeout=30) for _ in range(20)]
                for future in futures:
                    future.cancel()
        eventually(lambda: tiny.server.metric("pressroom_in_flight_requests", protocol="grpc") == 0, "all have left")
        assert tiny.queued() == 0
    assert running.result().status_code == 200
    assert tiny.ask(722.0).status_code == 200
    assert tiny.times_run(721.0) == 0


def test_interactive_requests_go_before_batch_ones_over_both_protocols(
    tiny: TinyServer, callers: ThreadPoolExecutor
) -> None:
    """The patient ones are queued first, yet their rows come after those of the hasty."""
    with tiny.held(B):
        running = callers.submit(tiny.ask, 800.0, model=B)
        tiny.wait_until_run(800.0, B)
        patient = callers.submit(tiny.ask, *[801.0] * 10, model=B, headers={"X-Priority": "batch"})
        tiny.wait_until_queued(10, B)
        batch_call = [("x-priority", "batch")]
        patient_call = callers.submit(rpc, tiny.server, "ModelInfer", message(802.0, model=B), metadata=batch_call)
        tiny.wait_until_queued(11, B)
        hasty = callers.submit(tiny.ask, 803.0, model=B)
        tiny.wait_until_queued(12, B)
        hasty_call = callers.submit(rpc, tiny.server, "ModelInfer", message(804.0, model=B))
        tiny.wait_until_queued(13, B)
    for answer in (running, patient, hasty):
        assert answer.result().status_code == 200
    assert patient_call.result() is not None
    assert hasty_call.result() is not None
    rows = [x for run in tiny.runs(B) for x in run]
    assert [x for x in rows if x in (803.0, 804.0)] == [803.0, 804.0]
    assert max(rows.index(803.0), rows.index(804.0)) < min(rows.index(801.0), rows.index(802.0))


def test_an_unknown_priority_is_refused_by_both_protocols(tiny: TinyServer) -> None:
    refusal = refusal_of(tiny.ask(1.0, headers={"X-Priority": "urgent"}))
    assert (refusal.code, refusal.error["field"]) == ("invalid_request", "X-Priority")
    refusal = rpc_refusal(tiny.server, "ModelInfer", message(1.0), metadata=[("x-priority", "urgent")])
    assert (refusal.code, refusal.error["field"]) == ("invalid_request", "x-priority")


def test_all_protocols_share_the_places_in_the_house(tiny: TinyServer, callers: ThreadPoolExecutor) -> None:
    """Half the places taken over HTTP, half over gRPC: the next caller of either is refused, probes still answer."""
    with tiny.held():
        running = callers.submit(tiny.ask, 900.0)
        tiny.wait_until_run(900.0)
        with stub(tiny.server) as calls:
            held = [calls.ModelInfer.future(message(901.0), timeout=60) for _ in range(QUEUE_ROWS // 2)]
            inside = [callers.submit(tiny.ask, 902.0) for _ in range(QUEUE_ROWS // 2)]
            tiny.wait_until_queued(QUEUE_ROWS)
            with tiny.held(B):
                rest = [callers.submit(tiny.ask, 903.0, model=B) for _ in range(PLACES - QUEUE_ROWS - 1)]
                eventually(lambda: _in_flight(tiny) == PLACES, "the house is full")
                refusal = refusal_of(tiny.ask(904.0, model=B))
                assert (refusal.status, refusal.code) == (429, "too_many_in_flight")
                assert int(refusal.headers["retry-after"]) == 1
                with pytest.raises(grpc.RpcError) as refused:
                    calls.ModelInfer(message(904.0, model=B), timeout=30)
                assert rpc_refusal_of(refused.value).code == "too_many_in_flight"
                assert tiny.server.get("/livez").status_code == tiny.server.get("/readyz").status_code == 200
            tiny.release()
            assert {answer.result().status_code for answer in [running, *inside, *rest]} == {200}
            assert [rpc_output(call.result()).item() for call in held] == [1802.0] * len(held)
    assert _in_flight(tiny) == 0


def _in_flight(tiny: TinyServer) -> float:
    """Requests inside, this scrape not counted."""
    series = tiny.server.samples()
    total = sum(value for (name, _), value in series.items() if name == "pressroom_in_flight_requests")
    return total - 1
