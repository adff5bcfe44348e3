"""A bento served from the store as an operator meets it: probes, a full queue, a killed worker, the end (rung 4)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import etth1
import httpx
import numpy as np
import psutil
import pytest
from built import Bento
from etth1 import CARD, forecast_of, official, request
from live_server import BENTOML, LiveServer, eventually, running_server
from pressroom_client import APIConnectionError, Client, QueueFull, Retry

ROWS = 300  # of one request, run one by one: seconds of work
MANY = {"history": etth1.history(*[etth1.START] * ROWS)}
SETTINGS = {
    "PRESSROOM_MODELS": CARD,
    "PRESSROOM_MAX_BATCH_ROWS": "1",
    "PRESSROOM_MAX_QUEUE_ROWS": str(ROWS),
    "PRESSROOM_DRAIN_SECONDS": "30",
}


@pytest.fixture(scope="module")
def served(bento: Bento, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """`bentoml serve TAG` with one worker."""
    folder = tmp_path_factory.mktemp("bento-served")
    command = (BENTOML, "serve", bento.tag)
    with running_server(bento.home, folder / "log", command=command, cwd=folder, environment=SETTINGS) as running:
        yield running


def queued(server: LiveServer) -> float:
    return server.metric("pressroom_queue_rows", model=CARD)


def assert_official(server: LiveServer) -> None:
    answer = httpx.post(f"{server.url}{etth1.FORECAST}", json=request(model=CARD), timeout=60).raise_for_status()
    forecast = forecast_of(answer.json()["series"][0])
    np.testing.assert_allclose(forecast, official("card").units[0], rtol=1e-4, atol=1e-3)


@contextmanager
def occupied(server: LiveServer) -> Iterator[list[tuple[int, ...] | Exception]]:
    """One caller with many rows; the list has its answer's shape, or its error, once this context is left."""
    answers: list[tuple[int, ...] | Exception] = []

    def ask() -> None:
        with Client(server.url, timeout=120, retries=Retry(count=0)) as client:
            try:
                answers.append(client.infer(CARD, MANY).outputs["forecast"].shape)
            except APIConnectionError as lost:
                answers.append(lost)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        eventually(lambda: queued(server) > ROWS / 4, "rows wait")
        yield answers
    finally:
        thread.join(120)


def test_its_probes_are_green(served: LiveServer) -> None:
    assert [served.get(path).status_code for path in ("/livez", "/readyz")] == [200, 200]
    with Client(f"grpc://{served.grpc_address}") as client:
        assert client.model_ready(CARD)
    assert_official(served)


def test_a_full_queue_is_refused_and_the_probes_stay_green(served: LiveServer) -> None:
    with occupied(served) as answers:
        with Client(served.url, retries=Retry(count=0)) as client, pytest.raises(QueueFull) as refused:
            client.infer(CARD, MANY)
        assert refused.value.retry_after is not None
        assert [served.get(path).status_code for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 200]
    assert answers == [(ROWS, 96, 7)]
    assert_official(served)


def test_a_killed_worker_is_replaced_and_leaves_no_phantom_load(served: LiveServer) -> None:
    worker = max(served.children(), key=lambda pid: psutil.Process(pid).memory_info().rss)
    with occupied(served) as answers:
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: worker not in served.children(), "the worker has gone")
    assert isinstance(answers[0], APIConnectionError)
    assert served.wait_for("/readyz")
    assert worker not in served.children()
    assert_official(served)
    assert queued(served) == 0
    assert served.metric("pressroom_in_flight_requests", protocol="http") <= 1  # this scrape


def test_a_stop_waits_for_what_was_accepted(served: LiveServer) -> None:
    with occupied(served) as answers:
        served.terminate()
    assert answers == [(ROWS, 96, 7)]
    assert served.wait() == 0
