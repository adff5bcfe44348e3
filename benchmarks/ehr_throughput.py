"""Patients a second through the served route, over the real lengths of data/ehr, batched against one by one.

    python -m benchmarks.ehr_throughput [--seconds 4] [--rounds 2] [--write-docs]

Two gateways serve the same artifact, one joins patients, one does not; they take turns under load. CPU time is the
server's own. The last part measures what a patient of 16,221 events does to the small ones beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer

from benchmarks.command import run
from benchmarks.cpu import ServerCpu
from benchmarks.ehr_pages import write_throughput
from benchmarks.machine import describe
from benchmarks.server import Gateway, gateway, use_own_store
from pressroom.bench_stats import percentile

ROOT = Path(__file__).parents[1]
CHECKPOINT, DATA = ROOT / "data/checkpoints/motor_synthea", ROOT / "data/ehr/data"
MODEL, PATH, SEED = "motor-synthea", "/v1/ehr/predict", 11
CLIENTS = (1, 16, 64)
PATIENTS = 200
SMALL = 600  # events


@dataclass(frozen=True)
class Load:
    """One measurement: patients answered a second, latencies, the server's CPU a patient, share of padding."""

    patients_a_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    padding: float


@dataclass(frozen=True)
class Neighbour:
    """Small patients' latency, and longest wait for the network, without and with the largest one among them; its own
    latency and its batch's time in the network. Milliseconds."""

    alone_p50_ms: float
    alone_worst_ms: float
    alone_queue_ms: float
    beside_p50_ms: float
    beside_worst_ms: float
    beside_queue_ms: float
    largest_ms: float
    largest_inference_ms: float


@dataclass(frozen=True)
class Bodies:
    """Requests of one patient each, as of its last event; small: few events; largest: most; lengths: events of each."""

    sample: list[bytes]
    small: list[bytes]
    largest: bytes
    lengths: list[int]


def main(
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of a measured window.")] = 4.0,
    rounds: Annotated[int, typer.Option(min=1, help="Everything this many times; medians are reported.")] = 2,
    write_docs: Annotated[bool, typer.Option(help="Write docs/ehr-throughput.md.")] = False,
) -> None:
    """Measure patients a second, and what the largest patient costs the small ones."""
    machine = {**describe(), "load": f"{os.getloadavg()[0]:.1f} before it began; above 0, other work shares the cores"}
    use_own_store()
    press()
    bodies = read_bodies()
    only = {"PRESSROOM_MODELS": MODEL}
    with gateway(only) as joined, gateway({**only, "PRESSROOM_MAX_BATCH_ROWS": "1"}) as single:
        servers = {"batched": joined, "one by one": single}
        loads = asyncio.run(measure(servers, bodies, seconds, rounds))
        neighbour = asyncio.run(beside_the_largest(joined, bodies, seconds))
    for (name, clients), load in loads.items():
        print(f"{name:12}{clients:4} clients  {load}")
    print(neighbour)
    if write_docs:
        write_throughput(loads, neighbour, bodies.lengths, machine)


def press() -> None:
    """The bundled checkpoint and its adapters, where the store does not hold them yet."""
    from export.ehr import EhrJob, press
    from export.ehr_adapter import store_adapter

    press(EhrJob(folder=CHECKPOINT, name=MODEL))
    for path in sorted(CHECKPOINT.glob("*.adapter.json")):
        store_adapter(path)


def read_bodies(patients: int = PATIENTS) -> Bodies:
    """A random sample of all three splits' subjects, the one with the most events always in it."""
    table = pa.concat_tables(pq.read_table(DATA / f"{split}.parquet") for split in ("train", "tuning", "held_out"))
    table = table.filter(pc.not_equal(table.column("code"), "MEDS_DEATH"))  # an outcome, not known before
    sizes = {one["values"]: one["counts"] for one in table.column("subject_id").value_counts().to_pylist()}
    subjects = sorted(sizes, key=lambda one: (sizes[one], one))
    others = np.random.default_rng(SEED).choice(subjects[:-1], patients - 1, replace=False).tolist()
    chosen = table.filter(pc.is_in(table.column("subject_id"), pa.array([*others, subjects[-1]], pa.int64())))
    bodies = _bodies(chosen)
    sample = [bodies[one] for one in [*others, subjects[-1]]]
    small = [bodies[one] for one in others if sizes[one] < SMALL]
    return Bodies(sample, small, bodies[subjects[-1]], sorted(sizes[one] for one in [*others, subjects[-1]]))


def _bodies(table: pa.Table) -> dict[int, bytes]:
    """Each subject's request, as of its last event."""
    by_subject: dict[int, list[dict[str, object]]] = {}
    for row in table.to_pylist():
        stated = {name: value for name, value in row.items() if value is not None and name != "subject_id"}
        by_subject.setdefault(row["subject_id"], []).append({**stated, "time": row["time"].isoformat()})
    asked = {"model": MODEL, "horizons_days": [365, 730, 1825]}
    return {
        subject: json.dumps({**asked, "prediction_time": events[-1]["time"], "patients": [{"events": events}]}).encode()
        for subject, events in by_subject.items()
    }


async def measure(
    servers: dict[str, Gateway], bodies: Bodies, seconds: float, rounds: int
) -> dict[tuple[str, int], Load]:
    """Medians over rounds in which the servers take turns."""
    found: dict[tuple[str, int], list[Load]] = {}
    for _ in range(rounds):
        for clients in CLIENTS:
            for name, server in servers.items():
                load = await _load(server, bodies.sample, clients, seconds)
                found.setdefault((name, clients), []).append(load)
    fields = Load.__dataclass_fields__
    return {
        key: Load(*(median(getattr(one, field) for one in loads) for field in fields)) for key, loads in found.items()
    }


async def _load(server: Gateway, bodies: Sequence[bytes], clients: int, seconds: float) -> Load:
    """Closed-loop clients that walk through the bodies in one shared order."""
    cpu = ServerCpu(server.pid)
    latencies: list[float] = []
    async with _connections(server, clients) as http:
        await _ask(http, bodies[0])
        before, positions, begun = cpu.read(), _positions(server), time.perf_counter()
        turn = iter(range(1 << 30))

        async def client() -> None:
            while time.perf_counter() < begun + seconds:
                latencies.append(await _ask(http, bodies[next(turn) % len(bodies)]))

        await asyncio.gather(*(client() for _ in range(clients)))
        wall, used = time.perf_counter() - begun, cpu.read().since(before)
        real, padded = (b - a for a, b in zip(positions, _positions(server), strict=True))
    return Load(
        patients_a_second=len(latencies) / wall,
        p50_ms=percentile(latencies, 50),
        p99_ms=percentile(latencies, 99),
        cpu_ms=1000 * used.workers / len(latencies),
        padding=1 - real / padded,
    )


async def beside_the_largest(server: Gateway, bodies: Bodies, seconds: float) -> Neighbour:
    """Four clients with small patients, alone and then with one client that sends the largest without a pause."""
    async with _connections(server, 8) as http:
        alone, alone_queues = await _small(http, bodies.small, seconds)
        largest: list[float] = []
        inference: list[float] = []
        sending = asyncio.create_task(_send_largest(http, bodies.largest, seconds, largest, inference))
        beside, beside_queues = await _small(http, bodies.small, seconds)
        await sending
    return Neighbour(
        alone_p50_ms=median(alone),
        alone_worst_ms=max(alone),
        alone_queue_ms=max(alone_queues),
        beside_p50_ms=median(beside),
        beside_worst_ms=max(beside),
        beside_queue_ms=max(beside_queues),
        largest_ms=median(largest),
        largest_inference_ms=max(inference),
    )


async def _small(http: httpx.AsyncClient, bodies: Sequence[bytes], seconds: float) -> tuple[list[float], list[float]]:
    """Latencies, and what of them was waiting for the network."""
    end = time.perf_counter() + seconds
    latencies: list[float] = []
    queues: list[float] = []

    async def client(offset: int) -> None:
        turn = offset
        while time.perf_counter() < end:
            begun = time.perf_counter()
            reply = await http.post(PATH, content=bodies[turn % len(bodies)])
            latencies.append(1000 * (time.perf_counter() - begun))
            queues.append(reply.raise_for_status().json()["timings"]["queue_ms"])
            turn += 4

    await asyncio.gather(*(client(i) for i in range(4)))
    return latencies, queues


async def _send_largest(
    http: httpx.AsyncClient, body: bytes, seconds: float, largest: list[float], inference: list[float]
) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        reply = await http.post(PATH, content=body)
        largest.append(1000 * (time.perf_counter() - begun))
        inference.append(reply.raise_for_status().json()["timings"]["inference_ms"])


def _connections(server: Gateway, clients: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    return httpx.AsyncClient(
        base_url=server.url, limits=limits, timeout=60, headers={"Content-Type": "application/json"}
    )


async def _ask(http: httpx.AsyncClient, body: bytes) -> float:
    """Milliseconds of one good answer."""
    begun = time.perf_counter()
    (await http.post(PATH, content=body)).raise_for_status()
    return 1000 * (time.perf_counter() - begun)


def _positions(server: Gateway) -> tuple[float, float]:
    """Positions of patients, and with padding, that went through the network so far."""
    with urllib.request.urlopen(f"{server.url}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    names = ("pressroom_ehr_positions_total", "pressroom_ehr_padded_positions_total")
    values = [sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{")) for name in names]
    return values[0], values[1]


if __name__ == "__main__":
    run(main, "python -m benchmarks.ehr_throughput --write-docs")
