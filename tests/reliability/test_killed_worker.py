"""kill -9 of a worker under load: its running requests are lost, nothing else is, and clients' retries hide that."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import etth1
import grpc
import pytest
from asking import INFER, binary_body, forecast_message, rpc
from callers import Callers, until
from live_server import LiveServer, StartServer, eventually
from pressroom_client import Client
from samples import Sample, good_samples

CALLERS = 16


@pytest.fixture(scope="module")
def pair(start_server: StartServer) -> LiveServer:
    """Two workers that serve CARD."""
    server = start_server("--models", etth1.CARD, "--workers", "2")
    eventually(lambda: ready_workers(server) == 2, "both workers are ready", 60)
    return server


def ready_workers(server: LiveServer) -> float:
    return server.metric("pressroom_model_ready", model=etth1.CARD)


def card_samples() -> list[Sample]:
    return [sample for sample in good_samples() if sample.architecture == "card"]


async def test_a_killed_worker_loses_its_running_requests_and_nothing_else(pair: LiveServer) -> None:
    callers = Callers(pair, card_samples())
    async with callers.calling(CALLERS) as tally:
        await until(lambda: tally.answered > 300, "the load is on")
        victim = (await asyncio.to_thread(pair.children))[0]
        killed = perf_counter()
        os.kill(victim, signal.SIGKILL)
        await until(lambda: ready_workers(pair) == 1, "the dead worker's gauges are gone", 30)
        seen = tally.answered
        await until(lambda: tally.answered > seen + 100, "the other worker answers on")
        await until(lambda: ready_workers(pair) == 2, "a successor is ready")
        recovered = perf_counter() - killed
        seen = tally.answered
        await until(lambda: tally.answered > seen + 300, "the load is on")
    print(
        f"\nkill -9: {len(tally.broken)} of {tally.answered} requests lost, second worker back after {recovered:.1f} s"
    )
    assert tally.wrong == []
    assert len(tally.broken) <= CALLERS  # each caller has one request running
    assert all(moment - killed < 5 for moment in tally.moments), tally.broken
    assert {code for _, code in tally.codes} == {"ok"}
    await until(lambda: pair.metric("pressroom_in_flight_requests", protocol="grpc") == 0, "no phantom calls")
    await until(lambda: pair.metric("pressroom_in_flight_requests", protocol="http") == 1, "the scrape alone is inside")
    assert pair.metric("pressroom_queue_rows") == 0


class _Asker(threading.Thread):
    """Forecasts by the client, with its default retries, until told to stop; keeps what went wrong."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.stopping = threading.Event()
        self.answers = 0
        self.errors: list[str] = []

    def run(self) -> None:
        history = {"history": etth1.history()}
        with Client(self.url) as client:
            while not self.stopping.is_set():
                try:
                    client.infer(etth1.CARD, history)
                    self.answers += 1
                except Exception as fault:
                    self.errors.append(repr(fault))


@contextmanager
def asking(*urls: str) -> Iterator[list[_Asker]]:
    askers = [_Asker(url) for url in urls]
    for asker in askers:
        asker.start()
    try:
        yield askers
    finally:
        for asker in askers:
            asker.stopping.set()
        for asker in askers:
            asker.join(60)


def test_the_client_s_retries_hide_it(pair: LiveServer) -> None:
    eventually(lambda: ready_workers(pair) == 2, "both workers are ready", 60)
    with asking(*[pair.url] * 4, *[f"grpc://{pair.grpc_address}"] * 4) as askers:
        eventually(lambda: all(asker.answers > 10 for asker in askers), "everyone is answered")
        os.kill(pair.children()[0], signal.SIGKILL)
        eventually(lambda: ready_workers(pair) == 1, "it is gone", 30)
        eventually(lambda: ready_workers(pair) == 2, "its successor is ready", 60)
        before = [asker.answers for asker in askers]
        eventually(lambda: all(a.answers > b for a, b in zip(askers, before, strict=True)), "everyone is answered")
    assert [asker.errors for asker in askers] == [[]] * len(askers)


def test_new_callers_never_meet_a_successor_that_is_still_loading(pair: LiveServer) -> None:
    """Every request on a connection of its own, until the successor is ready: all are answered."""
    eventually(lambda: ready_workers(pair) == 2, "both workers are ready", 60)
    body, headers = binary_body(etth1.history())
    answers: list[tuple[int, str]] = []
    stopping = threading.Event()

    def ask() -> None:
        while not stopping.is_set():
            response = pair.post(INFER.format(etth1.CARD), content=body, headers=headers)
            answers.append((response.status_code, response.text[:200] if response.status_code != 200 else ""))
            try:
                rpc(pair, "ModelInfer", forecast_message(), wait_for_ready=True)
            except grpc.RpcError as fault:
                answers.append((0, fault.details()))

    os.kill(pair.children()[0], signal.SIGKILL)
    eventually(lambda: ready_workers(pair) == 1, "it is gone", 30)
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: ready_workers(pair) == 2, "its successor is ready", 60)
    before = len(answers)
    eventually(lambda: len(answers) > before + 30, "callers are answered")
    stopping.set()
    for thread in threads:
        thread.join(60)
    assert [answer for answer in answers if answer[0] != 200] == []
