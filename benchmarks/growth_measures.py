"""The measurements behind docs/growth.md: one server after another, closed clients, CPU from the process clocks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import uvloop

from benchmarks.cpu import ServerCpu
from benchmarks.footprint import FAMILIES, keyed, resident, stored
from benchmarks.growth_load import load_times
from benchmarks.growth_stores import copied, store_settings
from benchmarks.load import one_window
from benchmarks.server import Gateway, gateway
from pressroom.bench_load import Load, Tally
from pressroom.bench_requests import WIRES, from_model, prepare
from pressroom.bench_target import ask_model, read_server

WARM, SECONDS = 0.5, 1.5
MANY, FEW = 64, 4  # clients
MODEL, OTHER = "itransformer-etth1", "card-etth1"
BATCHES = (1, 2, 4, 8, 16, 32, 64)
ROWS = (1, 4, 16, 64, 256)
MODELS = (1, 4, 16, 64)


@dataclass(frozen=True)
class Measured:
    """One measurement: answers a second, their latency in ms, server CPU ms an answer, failures."""

    rate: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    failed: int


@dataclass(frozen=True)
class Start:
    """From the start of the process until it is ready: seconds, CPU seconds, and MiB then."""

    seconds: float
    cpu: float
    mib: float


@contextmanager
def started(settings: dict[str, str], service: str = "gateway") -> Iterator[tuple[Gateway, Start]]:
    """A server, and what its start took."""
    began = time.perf_counter()
    with gateway(settings, service) as running:
        seconds = time.perf_counter() - began
        cpu = ServerCpu(running.pid).read()
        yield running, Start(seconds, cpu.workers + cpu.supervisor, resident(running))


def batch_sizes(model: str) -> dict[int, Measured]:
    """MANY clients that ask for one row each, with at most so many rows in a forward pass."""
    found = {}
    for most in BATCHES:
        with started({"PRESSROOM_MODELS": model, "PRESSROOM_MAX_BATCH_ROWS": str(most)}) as (running, _):
            found[most] = measure(running, requests(running, [model], "oip-binary", 1), "oip-binary", MANY)
    return found


def payloads(model: str) -> dict[str, dict[int, tuple[int, Measured]]]:
    """FEW clients that ask for so many rows at once, by wire: bytes of a request, and what came of it."""
    found: dict[str, dict[int, tuple[int, Measured]]] = {}
    with started({"PRESSROOM_MODELS": model}) as (running, _):
        for wire in WIRES[1:]:
            for rows in ROWS:
                asked = requests(running, [model], wire, rows)
                found.setdefault(wire, {})[rows] = len(asked[0]), measure(running, asked, wire, FEW)
    return found


def loaded_models(model: str) -> dict[int, tuple[Start, Measured]]:
    """The same artifact under so many names, all of them asked in turn."""
    found = {}
    names = copied(model, max(MODELS))
    for count in MODELS:
        served = names[:count]
        with started({**store_settings(), "PRESSROOM_MODELS": ",".join(served)}) as (running, start):
            found[count] = start, measure(running, requests(running, served, "oip-binary", 1), "oip-binary", MANY)
    return found


def families() -> dict[str, list[str]]:
    """What the benchmarks' store has of each family; bundled artifacts are pressed if they are missing."""
    everyone = {**FAMILIES, "onnx": stored("onnx")}
    return {family: names for family, find in everyone.items() if (names := find())}


def cold_starts(found: dict[str, list[str]], rounds: int) -> dict[str, Start]:
    """Each family alone, and all of them; the quickest of the rounds."""
    everything = {**found, "gateway": [name for names in found.values() for name in names]}
    starts = {}
    for family, names in everything.items():
        settings = {"PRESSROOM_MODELS": ",".join(names), **keyed()}
        tries = []
        for _ in range(rounds):
            with started(settings, family) as (_running, start):
                tries.append(start)
        starts[family] = min(tries, key=lambda one: one.seconds)
    return starts


def loads(found: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """One artifact of each family from the store to its first answer."""
    environment = {**os.environ, **keyed()}
    return {names[0]: load_times(names[0], environment) for names in found.values()}


def requests(running: Gateway, models: Sequence[str], wire: str, rows: int) -> list[bytes]:
    """Prepared requests for all models, one model after another."""
    server = read_server(running.url, running.grpc_url)
    asked = [ask_model(server, model) for model in models]
    by_model = [prepare(wire, from_model(model, rows, {}, seed=0), model, server) for model in asked]
    return [request for turn in zip(*by_model, strict=True) for request in turn]


def measure(running: Gateway, asked: list[bytes], wire: str, clients: int) -> Measured:
    """One window under closed clients."""
    return uvloop.run(_measure(running, asked, wire, clients))


async def _measure(running: Gateway, asked: list[bytes], wire: str, clients: int) -> Measured:
    server = read_server(running.url, running.grpc_url)
    make, channels = server.grpc_lines(clients) if wire == "grpc" else (server.http_lines(), [])
    load = Load(clients=clients)
    window, used, failed = await one_window(Tally(asked), load, make, running.pid, WARM, SECONDS, seed=0)
    await asyncio.gather(*(channel.close() for channel in channels))
    cpu = 1e3 * (used.workers + used.supervisor) / max(len(window.latencies), 1)
    return Measured(window.rate, window.percentile_ms(50), window.percentile_ms(99), cpu, failed.total())
