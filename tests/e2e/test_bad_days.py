"""Bad days: malformed mates, callers who go away, full queues, passed deadlines. The others get their right answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import etth1
import grpc
import httpx
import numpy as np
import pytest
from etth1 import CARD, ITRANSFORMER
from live_server import LiveServer, StartServer, eventually
from load import INFER, ONE_BY_ONE, big_request, occupied, queued
from pressroom_client import APITimeoutError, Client, QueueFull
from raw_http import RawConnection
from refusals import check_grpc, check_http, check_rpc_error, grpc_infer
from tensor_cases import as_message, clock, history
from tritonclient.grpc import service_pb2_grpc

REQUESTS = "pressroom_requests_total"
VALUES = "series[0].values"


@pytest.fixture(scope="module")
def busy(start_server: StartServer) -> LiveServer:
    """A server that runs rows one by one, so that a large request keeps a model busy for seconds."""
    return start_server(environment=ONE_BY_ONE)


@pytest.fixture(scope="module")
def truth(server: LiveServer) -> dict[str, np.ndarray]:
    """Each model's forecast of the default window, asked for alone."""
    answers = {
        model: server.post(etth1.FORECAST, json=etth1.request(model=model)).json() for model in (CARD, ITRANSFORMER)
    }
    return {model: etth1.forecast_of(answer["series"][0]) for model, answer in answers.items()}


def counted(server: LiveServer, **labels: str) -> float:
    return server.metric(REQUESTS, **labels)


# --- one malformed request among many


def _spoil(request: dict[str, Any], how: str) -> bytes:
    columns = request["series"][0]["values"]
    if how == "null":
        columns["OT"][7] = None
    elif how == "short":
        request["series"] = [etth1.series(length=95)]
    elif how == "huge":
        columns["OT"] = [1e300] * 96
    return json.dumps(request).encode() if how != "torn" else json.dumps(request).encode()[:-2]


@pytest.mark.parametrize("model", [CARD, ITRANSFORMER])
@pytest.mark.parametrize(
    ("how", "status", "code", "field"),
    [
        ("null", 422, "value_not_finite", f"{VALUES}.OT[7]"),
        ("short", 422, "history_too_short", VALUES),
        ("huge", 422, "value_out_of_range", "series[0].values"),
        ("torn", 400, "invalid_json", None),
    ],
)
async def test_one_malformed_request_among_32_leaves_31_right_answers(
    server: LiveServer, truth: dict[str, np.ndarray], model: str, how: str, status: int, code: str, field: str | None
) -> None:
    bodies = [json.dumps(etth1.request(model=model)).encode()] * 32
    bodies[13] = _spoil(etth1.request(model=model), how)
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        answers = await asyncio.gather(*(client.post(etth1.FORECAST, content=body) for body in bodies))
    check_http(answers.pop(13), status, code, field)
    for answer in answers:
        assert answer.status_code == 200
        got = etth1.forecast_of(answer.json()["series"][0])
        np.testing.assert_allclose(got, truth[model], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [CARD, ITRANSFORMER])
def test_one_malformed_grpc_request_among_32_leaves_31_right_answers(
    server: LiveServer, truth: dict[str, np.ndarray], model: str
) -> None:
    inputs = [[history(), clock()] for _ in range(32)]
    inputs[13] = [history(np.full((1, 96, 7), np.nan, np.float32)), clock()]
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(as_message(model, tensors), timeout=30) for tensors in inputs]
        malformed = calls.pop(13).exception()
        answers = [call.result() for call in calls]
    check_rpc_error(malformed, "INVALID_ARGUMENT", "value_not_finite", "history[0, 0, 0]")
    for answer in answers:
        got = np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(96, 7)
        np.testing.assert_allclose(got, truth[model], rtol=1e-4, atol=1e-4)


# --- callers who go away


def test_work_of_a_caller_who_goes_away_is_dropped_before_it_runs(busy: LiveServer) -> None:
    cancelled = counted(busy, model=CARD, protocol="http", code="cancelled")
    passes = busy.metric("pressroom_batch_rows_count", model=CARD)
    with occupied(busy, 2000):
        body, headers = big_request(900)
        with RawConnection(busy) as victim:
            victim.post(INFER, body, **headers)
            with_both = eventually(lambda: (rows := queued(busy)) > 2000 and rows, "the second request waits too")
        eventually(lambda: queued(busy) <= with_both - 900, "the waiting rows are dropped")
        assert queued(busy) > 0  # the first request still waits: it was dropping, not running, that freed the place
        assert counted(busy, model=CARD, protocol="http", code="cancelled") == cancelled + 1
    eventually(
        lambda: counted(busy, model=CARD, protocol="http", code="cancelled") == cancelled + 2, "both are counted"
    )
    assert busy.metric("pressroom_batch_rows_count", model=CARD) - passes < 2000


def test_work_of_a_grpc_caller_who_cancels_is_dropped(busy: LiveServer) -> None:
    cancelled = counted(busy, model=CARD, protocol="grpc", code="cancelled")
    message = as_message(CARD, [history(etth1.history(*[etth1.START] * 900))])
    with occupied(busy, 2000), grpc.insecure_channel(busy.grpc_address) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer.future(message)
        with_both = eventually(lambda: (rows := queued(busy)) > 2000 and rows, "the second request waits too")
        assert call.cancel()
        eventually(lambda: queued(busy) <= with_both - 900, "the waiting rows are dropped")
        assert queued(busy) > 0
        eventually(
            lambda: counted(busy, model=CARD, protocol="grpc", code="cancelled") == cancelled + 1, "it is counted"
        )


def test_a_caller_who_hangs_up_in_the_middle_of_the_body_leaves_no_trace(busy: LiveServer) -> None:
    cancelled = counted(busy, protocol="http", code="cancelled")
    body, headers = big_request(50)
    with RawConnection(busy) as connection:
        connection.post(INFER, body[:-100], Content_Length=str(len(body)), **headers)
    eventually(lambda: counted(busy, protocol="http", code="cancelled") == cancelled + 1, "it is counted")
    assert queued(busy) == 0
    assert busy.get("/readyz").status_code == 200


# --- full queues


def test_a_full_queue_answers_429_with_retry_after_and_leaves_health_green(busy: LiveServer) -> None:
    full = counted(busy, model=CARD, protocol="http", code="queue_full")
    body, headers = big_request(2900)
    with occupied(busy, 2000), RawConnection(busy) as connection:
        connection.post(INFER, body, **headers)
        answer = connection.answer()
        assert busy.get("/livez").status_code == busy.get("/readyz").status_code == 200
    response = httpx.Response(answer.status, headers=answer.headers, content=answer.body)
    error = check_http(response, 429, "queue_full", None)
    assert 0 < error["retry_after_ms"] <= 30_000
    assert int(answer.headers["retry-after"]) == max(1, -(-error["retry_after_ms"] // 1000))
    assert counted(busy, model=CARD, protocol="http", code="queue_full") == full + 1


def test_a_full_queue_answers_resource_exhausted_over_grpc(busy: LiveServer) -> None:
    message = as_message(CARD, [history(etth1.history(*[etth1.START] * 2900))])
    with occupied(busy, 2000):
        error = check_grpc(busy, message, "RESOURCE_EXHAUSTED", "queue_full", None)
        with pytest.raises(grpc.RpcError) as refused:
            grpc_infer(busy, message)
    assert error["retry_after_ms"] > 0
    trailing = {item[0]: item[1] for item in refused.value.trailing_metadata()}
    assert int(trailing["retry-after-ms"]) > 0


def test_our_client_raises_queue_full_with_the_time_to_wait(busy: LiveServer) -> None:
    tensors = {"history": etth1.history(*[etth1.START] * 2900)}
    with occupied(busy, 2000):
        for address in (busy.url, f"grpc://{busy.grpc_address}"):
            with Client(address, retries=0) as client, pytest.raises(QueueFull) as refused:
                client.infer(CARD, tensors)
            assert refused.value.retry_after is not None
            assert 0 < refused.value.retry_after <= 30


def test_a_full_queue_of_one_model_does_not_touch_the_other(busy: LiveServer, truth: dict[str, np.ndarray]) -> None:
    with occupied(busy, 2900):
        answer = busy.post(etth1.FORECAST, json=etth1.request(model=ITRANSFORMER)).raise_for_status().json()
    np.testing.assert_allclose(etth1.forecast_of(answer["series"][0]), truth[ITRANSFORMER], rtol=1e-4, atol=1e-4)


# --- deadlines


@pytest.mark.parametrize("milliseconds", ["1", "50"])
def test_a_request_that_waits_past_its_deadline_gets_504_and_is_dropped(busy: LiveServer, milliseconds: str) -> None:
    asked = {"protocol": "http", "code": "deadline_exceeded"}  # of any model: a millisecond may pass before it is read
    late = counted(busy, **asked)
    with occupied(busy, 2000):
        response = busy.post(
            etth1.FORECAST, json=etth1.request(model=CARD), headers={"X-Request-Timeout-Ms": milliseconds}
        )
        assert queued(busy) > 0
    check_http(response, 504, "deadline_exceeded", None)
    assert counted(busy, **asked) == late + 1


def test_a_grpc_deadline_passes_in_the_queue_and_the_work_is_dropped(busy: LiveServer) -> None:
    def given_up() -> float:
        codes = ("deadline_exceeded", "cancelled")  # whichever of server and channel notices first
        return sum(counted(busy, model=CARD, protocol="grpc", code=code) for code in codes)

    before, message = given_up(), as_message(CARD, [history()])
    with occupied(busy, 2000):
        with pytest.raises(grpc.RpcError) as refused:
            grpc_infer(busy, message, timeout=0.2)
        assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        eventually(lambda: given_up() == before + 1, "it is counted")


def test_our_client_gives_up_in_time_and_the_server_drops_the_work(busy: LiveServer) -> None:
    def given_up() -> float:
        codes = ("deadline_exceeded", "cancelled")  # the deadline travels with the request; either side may be first
        return sum(counted(busy, model=CARD, protocol="http", code=code) for code in codes)

    before, columns = given_up(), etth1.series()["values"]
    with occupied(busy, 2000):
        with Client(busy.url, retries=0) as client, pytest.raises(APITimeoutError):
            client.forecast(columns, model=CARD, timeout=0.5)
        eventually(lambda: given_up() == before + 1, "it is counted")


def test_after_the_bad_days_the_answers_are_right(busy: LiveServer, truth: dict[str, np.ndarray]) -> None:
    for model, expected in truth.items():
        answer = busy.post(etth1.FORECAST, json=etth1.request(model=model)).raise_for_status().json()
        np.testing.assert_allclose(etth1.forecast_of(answer["series"][0]), expected, rtol=1e-4, atol=1e-4)
