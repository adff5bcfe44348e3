"""Workers of one server add up, a killed one is replaced, and servers beside each other keep to themselves."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import etth1
import pytest
from etth1 import CARD, ITRANSFORMER
from live_server import BENTOML, PRESSROOM, LiveServer, StartServer, clean_environment, eventually, free_ports
from load import INFER, ONE_BY_ONE, big_request
from raw_http import RawConnection
from refusals import check_http, grpc_infer
from tensor_cases import as_message, history

REQUESTS = "pressroom_requests_total"


def workers_of(server: LiveServer) -> set[int]:
    """Process ids of the server's workers."""

    def is_worker(pid: int) -> bool:
        try:
            return b"_bentoml_impl.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return {pid for pid in server.children() if is_worker(pid)}


def loaded(server: LiveServer) -> float:
    """In how many workers both models are ready."""
    return min(server.metric("pressroom_model_ready", model=model) for model in (CARD, ITRANSFORMER))


@pytest.fixture(scope="module")
def pair(start_server: StartServer) -> LiveServer:
    """A server of two workers, both with their models loaded."""
    one = start_server("--workers", "2", environment=ONE_BY_ONE)
    eventually(lambda: loaded(one) == 2, "both workers are ready", 60)
    assert len(workers_of(one)) == 2
    return one


def _ask(server: LiveServer) -> Iterator[dict[str, str]]:
    """100 requests, each on a connection of its own; yields the labels each must be counted under."""
    for i in range(60):
        model = (CARD, ITRANSFORMER)[i % 2]
        server.post(etth1.FORECAST, json=etth1.request(model=model)).raise_for_status()
        yield {"model": model, "route": etth1.FORECAST, "protocol": "http", "code": "ok"}
    for _ in range(20):
        grpc_infer(server, as_message(CARD, [history()]))
        yield {"model": CARD, "route": "/v2/models/{name}/infer", "protocol": "grpc", "code": "ok"}
    for _ in range(20):
        check_http(server.post(etth1.FORECAST, json={"model": CARD}), 422, "invalid_request", "series")
        yield {"model": CARD, "route": etth1.FORECAST, "protocol": "http", "code": "invalid_request"}


def test_the_metrics_of_two_workers_add_up_to_what_was_sent(pair: LiveServer) -> None:
    sent = [tuple(sorted(labels.items())) for labels in _ask(pair)]
    assert len(sent) == 100
    for labels in set(sent):  # a worker that is not asked writes its counts down twice a second
        wanted = sent.count(labels)
        eventually(lambda said=dict(labels), n=wanted: pair.metric(REQUESTS, **said) == n, f"{wanted} of {labels}")
    answered = sum(dict(labels)["code"] == "ok" for labels in sent)
    assert pair.metric("pressroom_stage_seconds_count", stage="inference") == answered
    assert loaded(pair) == 2
    eventually(lambda: pair.metric("pressroom_queue_rows") == 0, "no rows wait")


def _closed(connection: RawConnection) -> bool:
    """Whether the server's side of a connection is gone; given two seconds to show."""
    readable, _, _ = select.select([connection.fileno()], [], [], 2.0)
    return bool(readable)


def test_a_killed_worker_is_replaced_and_what_it_held_leaves_the_gauges(pair: LiveServer) -> None:
    before = workers_of(pair)
    answered = pair.metric(REQUESTS, code="ok")
    body, headers = big_request(3000)
    with RawConnection(pair) as connection:
        connection.post(INFER, body, **headers)
        eventually(lambda: pair.metric("pressroom_queue_rows", model=CARD) > 1000, "one worker is busy")
        for pid in before:
            os.kill(pid, signal.SIGKILL)
            if _closed(connection):
                break
        else:
            raise AssertionError("the request outlived every worker")
    eventually(lambda: len(workers_of(pair)) == 2 and pid not in workers_of(pair), "the worker is replaced", 60)
    eventually(lambda: loaded(pair) == 2, "the new worker is ready", 60)
    eventually(lambda: pair.metric("pressroom_queue_rows") == 0, "no rows wait")
    assert pair.metric("pressroom_in_flight_requests", protocol="grpc") == 0
    eventually(lambda: pair.metric("pressroom_in_flight_requests", protocol="http") <= 1, "only the scrape is handled")
    assert pair.metric(REQUESTS, code="ok") == answered  # what a dead worker counted still counts
    assert pair.post(etth1.FORECAST, json=etth1.request()).status_code == 200


def test_two_servers_of_one_store_do_not_touch_each_others_metrics(start_server: StartServer) -> None:
    first = start_server()
    for _ in range(3):
        first.post(etth1.FORECAST, json=etth1.request()).raise_for_status()
    second = start_server()
    assert first.metric(REQUESTS, code="ok") == 3
    assert second.metric(REQUESTS, code="ok") == 0
    second.post(etth1.FORECAST, json=etth1.request()).raise_for_status()
    assert (first.metric(REQUESTS, code="ok"), second.metric(REQUESTS, code="ok")) == (3, 1)
    assert second.stop() == 0
    assert first.metric(REQUESTS, code="ok") == 3
    assert first.metric("pressroom_model_ready", model=CARD) == 1


@pytest.fixture
def taken() -> Iterator[int]:
    """A port somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield holder.getsockname()[1]


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
def test_a_taken_port_is_refused_with_the_way_out(pressed_home: Path, taken: int, flag: str) -> None:
    other = {"--port": "--grpc-port", "--grpc-port": "--port"}[flag]
    command = [PRESSROOM, "serve", "gateway", flag, str(taken), other, str(free_ports(1)[0])]
    done = subprocess.run(
        command, env=clean_environment(pressed_home), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert str(taken) in done.stderr
    assert f"choose another with {flag}" in done.stderr
    assert "Traceback" not in done.stderr


def test_under_bentoml_a_taken_grpc_port_is_reported_with_the_way_out(
    start_server: StartServer, taken: int, tmp_path: Path
) -> None:
    """BentoML's own command knows nothing of the port, so the worker says it."""
    log = tmp_path / "server.log"
    settings = {"PRESSROOM_PORT": str(free_ports(1)[0]), "PRESSROOM_GRPC_PORT": str(taken)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [BENTOML, "serve", "services.gateway:Gateway"],
            env=clean_environment(tmp_path / "home", settings),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
        )
    try:
        eventually(lambda: "choose another with --grpc-port" in log.read_text(), "the log names the way out", 60)
        assert str(taken) in log.read_text()
    finally:
        process.terminate()
        process.wait(60)


def test_an_empty_store_is_not_ready_and_says_what_to_do(start_server: StartServer, tmp_path: Path) -> None:
    command = (BENTOML, "serve", "services.gateway:Gateway")
    one = start_server(home=tmp_path / "home", ready=False, command=command, cwd=tmp_path)
    eventually(lambda: "pressroom export" in one.get("/readyz").text, "readiness says what to do")
    check_http(one.get("/readyz"), 503, "model_not_ready", None)
    assert one.get("/livez").status_code == 200
    assert one.get("/v1/models").json() == {"object": "list", "data": []}
    check_http(one.post(etth1.FORECAST, json=etth1.request()), 404, "model_not_found", "model")
