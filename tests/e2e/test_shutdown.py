"""SIGTERM under load: every accepted request is answered, and the server ends by itself with status 0.

Accepted means: the server's own metrics count the request as being handled when the signal is sent. What comes later
may be refused (connection refused, 503 shutting_down, UNAVAILABLE), but is never answered wrongly or by halves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import etth1
import grpc
import httpx
import numpy as np
import pytest
from etth1 import CARD, ITRANSFORMER
from live_server import LiveServer, StartServer, eventually
from load import INFER, ONE_BY_ONE, big_request, queued
from raw_http import Answer, RawConnection
from refusals import check_http
from tensor_cases import as_message, clock, history
from tritonclient.grpc import service_pb2_grpc

DRAIN_SECONDS = 20
DRAIN = {"PRESSROOM_DRAIN_SECONDS": str(DRAIN_SECONDS)}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(scope="module")
def truth(server: LiveServer) -> dict[str, np.ndarray]:
    """Each model's forecast of the default window."""
    requests = {model: etth1.request(model=model) for model in (CARD, ITRANSFORMER)}
    answers = {model: server.post(etth1.FORECAST, json=request).json() for model, request in requests.items()}
    return {model: etth1.forecast_of(answer["series"][0]) for model, answer in answers.items()}


def in_flight(server: LiveServer, protocol: str) -> float:
    return server.metric("pressroom_in_flight_requests", protocol=protocol)


def assert_rows(answer: Answer, rows: int, truth: np.ndarray) -> None:
    """A complete answer of so many equal rows."""
    assert answer.status == 200, answer.body[:500]
    (output,) = answer.json()["outputs"]
    assert output["shape"] == [rows, 96, 7]
    got = np.array(output["data"]).reshape(rows, 96, 7)
    np.testing.assert_allclose(got, np.broadcast_to(truth, got.shape), **CLOSE)


def test_every_request_accepted_before_sigterm_is_answered(
    start_server: StartServer, truth: dict[str, np.ndarray]
) -> None:
    one = start_server(environment=ONE_BY_ONE | DRAIN)
    scrape = in_flight(one, "http")  # the scrape itself may count
    rows = [1000] + [20] * 6
    message = as_message(CARD, [history(etth1.history(*[etth1.START] * 20))])
    connections = [RawConnection(one) for _ in rows]
    with grpc.insecure_channel(one.grpc_address) as channel:
        for connection, count in zip(connections, rows, strict=True):
            body, headers = big_request(count)
            connection.post(INFER, body, **headers)
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(message, timeout=60) for _ in range(6)]
        eventually(lambda: in_flight(one, "http") == scrape + 7 and in_flight(one, "grpc") == 6, "all are accepted")
        assert queued(one) > 0
        one.terminate()
        answers = [connection.answer() for connection in connections]
        replies = [call.result() for call in calls]
    for connection in connections:
        connection.close()
    for answer, count in zip(answers, rows, strict=True):
        assert_rows(answer, count, truth[CARD])
    for reply in replies:
        got = np.frombuffer(reply.raw_output_contents[0], np.float32).reshape(20, 96, 7)
        np.testing.assert_allclose(got, np.broadcast_to(truth[CARD], got.shape), **CLOSE)
    assert one.wait(DRAIN_SECONDS + 10) == 0


class Tally:
    """What the closed-loop callers met; written by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answered = 0
        self.refused = 0
        self.wrong: list[str] = []

    def right(self) -> None:
        with self._lock:
            self.answered += 1

    def refusal(self) -> None:
        with self._lock:
            self.refused += 1

    def fault(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)


def http_loop(server: LiveServer, truth: np.ndarray, tally: Tally) -> None:
    """Ask on one connection until the server refuses; an answer that has begun must come whole."""
    request = etth1.request(model=CARD)
    with httpx.Client(base_url=server.url, timeout=60) as client:
        while True:
            try:
                with client.stream("POST", etth1.FORECAST, json=request) as response:
                    try:
                        response.read()
                    except httpx.TransportError as torn:
                        return tally.fault(f"half an answer: {torn!r}")
            except httpx.TransportError:
                return tally.refusal()
            if response.status_code != 200:
                check_http(response, 503, "shutting_down", None)
                return tally.refusal()
            np.testing.assert_allclose(etth1.forecast_of(response.json()["series"][0]), truth, **CLOSE)
            tally.right()


def grpc_loop(server: LiveServer, truth: np.ndarray, tally: Tally) -> None:
    message = as_message(ITRANSFORMER, [history(), clock()])
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        while True:
            try:
                reply = stub.ModelInfer(message, timeout=60)
            except grpc.RpcError as refused:
                if refused.code() != grpc.StatusCode.UNAVAILABLE:
                    tally.fault(f"{refused.code()}: {refused.details()}")
                return tally.refusal()
            got = np.frombuffer(reply.raw_output_contents[0], np.float32).reshape(96, 7)
            np.testing.assert_allclose(got, truth, **CLOSE)
            tally.right()


def test_callers_in_a_closed_loop_get_right_answers_until_they_are_refused(
    start_server: StartServer, truth: dict[str, np.ndarray]
) -> None:
    one, tally = start_server(environment=DRAIN), Tally()
    loops: list[tuple[Callable[..., Any], str]] = [(http_loop, CARD), (grpc_loop, ITRANSFORMER)] * 4
    with ThreadPoolExecutor(len(loops)) as threads:
        running = [threads.submit(loop, one, truth[model], tally) for loop, model in loops]
        eventually(lambda: tally.answered >= 200, "the load is on")
        assert tally.refused == 0
        one.terminate()
        for loop in running:
            loop.result(timeout=60)
    assert tally.wrong == []
    assert tally.refused == len(loops)
    assert one.wait(DRAIN_SECONDS + 10) == 0


@pytest.mark.parametrize("connected", [True, False], ids=["an idle connection", "no connection"])
def test_an_idle_server_ends_at_once_with_status_0(start_server: StartServer, connected: bool) -> None:
    one = start_server(environment=DRAIN)
    with httpx.Client(base_url=one.url) as client:
        if connected:
            assert client.get("/livez").status_code == 200
        one.terminate()
        assert one.wait(DRAIN_SECONDS) == 0
    with pytest.raises(httpx.ConnectError):
        one.get("/livez")


def test_a_request_still_running_after_the_drain_time_does_not_keep_the_server(start_server: StartServer) -> None:
    one = start_server(environment=ONE_BY_ONE | {"PRESSROOM_DRAIN_SECONDS": "1"})
    body, headers = big_request(3000)
    with RawConnection(one) as connection:
        connection.post(INFER, body, **headers)
        eventually(lambda: queued(one) > 2000, "the model is busy")
        one.terminate()
        one.wait(30)
