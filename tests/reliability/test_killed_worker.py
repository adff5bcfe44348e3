"""kill -9 of a worker under load: its running requests are lost, nothing else is, and clients' retries hide that.

One worker of two is killed once, while three kinds of callers are at it; each test looks at what one kind saw.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import etth1
import pytest
from asking import INFER, binary_body, forecast_message, rpc
from callers import Callers, Tally, until
from live_server import LiveServer, StartServer, eventually
from pressroom_client import Client
from samples import good_samples

CALLERS = 16
DYING_SECONDS = 2.0  # from the signal until the kernel has taken the process's sockets away, on a busy machine


@pytest.fixture(scope="module")
def pair(start_server: StartServer) -> LiveServer:
    """Two workers that serve CARD."""
    server = start_server("--models", etth1.CARD, "--workers", "2")
    eventually(lambda: ready_workers(server) == 2, "both workers are ready", 60)
    return server


def ready_workers(server: LiveServer) -> float:
    return server.metric("pressroom_model_ready", model=etth1.CARD)


class Asker(threading.Thread):
    """Calls `ask` until told to stop; keeps what went wrong, and when."""

    def __init__(self, ask: Callable[[], None]) -> None:
        super().__init__()
        self._ask = ask
        self._stopping = threading.Event()
        self.answers = 0
        self.errors: list[tuple[float, str]] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            began = perf_counter()
            try:
                self._ask()
                self.answers += 1
            except Exception as fault:
                self.errors.append((began, repr(fault)))

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)


@contextmanager
def asking(*asks: Callable[[], None]) -> Iterator[list[Asker]]:
    askers = [Asker(ask) for ask in asks]
    for asker in askers:
        asker.start()
    try:
        yield askers
    finally:
        for asker in askers:
            asker.stop()


def by_client(client: Client) -> Callable[[], None]:
    """The client with its default retries."""
    return lambda: client.infer(etth1.CARD, {"history": etth1.history()}) and None


def by_new_connections(server: LiveServer) -> Callable[[], None]:
    """No retries, but every request over a connection of its own."""
    body, headers = binary_body(etth1.history())

    def ask() -> None:
        response = server.post(INFER.format(etth1.CARD), content=body, headers=headers)
        assert response.status_code == 200, response.text[:300]
        rpc(server, "ModelInfer", forecast_message(), wait_for_ready=True)

    return ask


@dataclass
class Aftermath:
    """What the callers saw, and when the worker was killed and when replaced (`perf_counter` seconds)."""

    tally: Tally
    clients: list[Asker]
    newcomers: list[Asker]
    killed: float
    replaced: float


@pytest.fixture(scope="module")
def aftermath(pair: LiveServer) -> Aftermath:
    with Client(pair.url) as http, Client(f"grpc://{pair.grpc_address}") as over_grpc:
        asks = [by_client(http)] * 2 + [by_client(over_grpc)] * 2 + [by_new_connections(pair)] * 2
        with asking(*asks) as askers:
            eventually(lambda: all(asker.answers > 5 for asker in askers), "everyone is answered")
            tally, times = asyncio.run(_kill_under_load(pair))
            before = [asker.answers for asker in askers]
            eventually(lambda: all(a.answers > b + 5 for a, b in zip(askers, before, strict=True)), "all are answered")
    return Aftermath(tally, askers[:4], askers[4:], *times)


async def _kill_under_load(pair: LiveServer) -> tuple[Tally, tuple[float, float]]:
    samples = [sample for sample in good_samples() if sample.architecture == "card"]
    async with Callers(pair, samples).calling(CALLERS) as tally:
        await until(lambda: tally.answered > 300, "the load is on")
        victim = (await asyncio.to_thread(pair.children))[0]
        killed = perf_counter()
        os.kill(victim, signal.SIGKILL)
        await until(lambda: ready_workers(pair) == 1, "the dead worker's gauges are gone", 30)
        seen = tally.answered
        await until(lambda: tally.answered > seen + 100, "the other worker answers on")
        await until(lambda: ready_workers(pair) == 2, "a successor is ready")
        replaced, seen = perf_counter(), tally.answered
        await until(lambda: tally.answered > seen + 300, "the load is on")
    return tally, (killed, replaced)


def test_only_running_requests_are_lost(aftermath: Aftermath) -> None:
    tally = aftermath.tally
    seconds = aftermath.replaced - aftermath.killed
    print(f"\nkill -9: {len(tally.broken)} of {tally.answered} requests lost, successor ready after {seconds:.1f} s")
    assert tally.wrong == []
    assert {code for _, code in tally.codes} == {"ok"}
    late = [moment - aftermath.killed for moment in tally.moments if moment - aftermath.killed > DYING_SECONDS]
    assert late == [], tally.broken
    assert len(tally.broken) <= 2 * CALLERS  # the running one, and one on a connection the dying process still took


def test_the_client_s_retries_hide_it(aftermath: Aftermath) -> None:
    assert [asker.errors for asker in aftermath.clients] == [[]] * 4


def test_new_callers_never_meet_a_successor_that_is_still_loading(aftermath: Aftermath) -> None:
    """They too may meet the dying process, but no unready one after it."""
    errors = [(sent - aftermath.killed, what) for asker in aftermath.newcomers for sent, what in asker.errors]
    assert [error for error in errors if error[0] > DYING_SECONDS] == []


@pytest.mark.usefixtures("aftermath")
def test_gauges_return_to_zero(pair: LiveServer) -> None:
    eventually(lambda: pair.metric("pressroom_in_flight_requests", protocol="grpc") == 0, "no phantom calls")
    eventually(lambda: pair.metric("pressroom_in_flight_requests", protocol="http") <= 1, "only the scrape is inside")
    assert pair.metric("pressroom_queue_rows") == 0
