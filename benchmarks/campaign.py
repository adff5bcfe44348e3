"""Which measurements a run of `benchmarks.serving` makes, in which order, and their results as plain numbers.

Two servers run side by side, one batching and one not; the idle one costs nothing. Rounds visit every cell once, the
two servers directly after each other and in turns first, so that a change of the machine's mood hits both alike.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from benchmarks.cpu import busy_neighbours
from benchmarks.echo import TRANSPORTS, echo_server
from benchmarks.load import LoadGenerator, Shot, Taken
from benchmarks.local import LocalModel
from benchmarks.server import HOST, Gateway
from benchmarks.stats import cost_at
from benchmarks.windows import Windows
from benchmarks.wires import WIRES

FLOOR_ROWS = (1, 2, 4, 8, 16, 32, 64)
RTOL, ATOL = 1e-4, 1e-3  # of sampled answers, raw units; a neighbour's row would be off by whole units
FLOOR_SECONDS = 0.15  # of every measurement without a server


@dataclass(frozen=True)
class Cell:
    """One line of the result table."""

    model: str
    wire: str
    clients: int
    batching: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure: windows of `seconds` after `warm` seconds, everything `rounds` times."""

    models: Sequence[str]
    wires: Sequence[str]
    clients: Sequence[int]
    rounds: int
    seconds: float
    warm: float

    def cells(self) -> list[tuple[str, str, int]]:
        return list(product(self.models, self.wires, self.clients))

    def shots(self) -> int:
        return self.rounds * (2 * len(self.cells()) + len(self.transports()))

    def transports(self) -> list[str]:
        """gRPC transports to measure alone: none where gRPC is not asked for."""
        return list(TRANSPORTS) if any(WIRES[wire].grpc for wire in self.wires) else []


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement of one cell. CPU in milliseconds a request; shares are of one core.

    floor_ms   bare onnxruntime's CPU a row at `batch_rows`, the mean batch the server ran, with busy neighbours
    alone_ms   the same on an otherwise idle machine
    others     cores used by processes that are neither the server nor the load generator
    """

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    worker_ms: float
    supervisor_ms: float
    cpu_ms: float
    batch_rows: float
    floor_ms: float
    alone_ms: float
    overhead_ms: float
    generator: float
    others: float
    failed: int
    wrong: int

    def numbers(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Floor:
    """Bare onnxruntime: CPU milliseconds a row by batch size, alone and with busy neighbours."""

    alone: dict[int, float]
    busy: dict[int, float]


@dataclass(frozen=True)
class Echo:
    """A gRPC server that answers at once: CPU milliseconds of its process a call."""

    requests_per_s: float
    cpu_ms: float


@dataclass(frozen=True)
class Subject:
    """A model under test: its graph in this process and the answers it must give, [W, H, C]."""

    local: LocalModel
    expected: npt.NDArray[np.float64]


class Campaign:
    """Takes every measurement of a plan."""

    def __init__(self, plan: Plan, subjects: dict[str, Subject], windows: Windows) -> None:
        self._plan = plan
        self._subjects = subjects
        self._windows = windows
        self.floors: dict[str, list[Floor]] = {model: [] for model in plan.models}
        self.results: dict[Cell, list[Result]] = {}
        self.echoes: dict[str, list[Echo]] = {transport: [] for transport in plan.transports()}
        self.failures: list[str] = []
        self.load = os.getloadavg()[0]

    def run(self, servers: dict[bool, Gateway], generator: LoadGenerator, tick: Callable[[str], None]) -> None:
        """servers: by whether they batch; tick: called before each measurement with what it is."""
        for number in range(self._plan.rounds):
            for model in self._plan.models:
                tick(f"round {number + 1}: {model} without a server")
                self.floors[model].append(self._floor(model))
            for transport, measured in self.echoes.items():
                tick(f"round {number + 1}: {TRANSPORTS[transport]} alone")
                measured.append(self._echo(transport, generator))
            for cell in self._order(number):
                tick(f"round {number + 1}: {cell.model}, {WIRES[cell.wire].title}, {cell.clients} clients")
                self.results.setdefault(cell, []).append(self._measure(cell, servers[cell.batching], generator))

    def _floor(self, model: str) -> Floor:
        local = self._subjects[model].local

        def costs() -> dict[int, float]:
            return {rows: local.cpu_ms_per_row(self._windows, rows, FLOOR_SECONDS) for rows in FLOOR_ROWS}

        alone = costs()
        with busy_neighbours():
            return Floor(alone, costs())

    def _order(self, number: int) -> Iterator[Cell]:
        for model, wire, clients in self._plan.cells():
            for batching in (True, False) if number % 2 == 0 else (False, True):
                yield Cell(model, wire, clients, batching)

    def _echo(self, transport: str, generator: LoadGenerator) -> Echo:
        with echo_server(transport) as (port, pid):
            shot = Shot(
                wire="grpc",
                model=self._plan.models[0],
                host=HOST,
                port=port,
                pid=pid,
                clients=max(self._plan.clients),
                warm=self._plan.warm,
                seconds=self._plan.seconds,
            )
            taken = generator.take(shot)
        if taken.failed:
            self.failures.append(f"{transport} alone: {taken.first_failure}")
        answers = max(taken.answers, 1)
        return Echo(taken.answers / taken.seconds, 1e3 * taken.server.supervisor / answers)

    def _measure(self, cell: Cell, server: Gateway, generator: LoadGenerator) -> Result:
        port = server.grpc_port if WIRES[cell.wire].grpc else server.port
        shot = Shot(
            wire=cell.wire,
            model=cell.model,
            host=HOST,
            port=port,
            pid=server.pid,
            clients=cell.clients,
            warm=self._plan.warm,
            seconds=self._plan.seconds,
        )
        before = batches(server.url, cell.model)
        taken = generator.take(shot)
        rows, runs = (after - b for after, b in zip(batches(server.url, cell.model), before, strict=True))
        if taken.failed:
            self.failures.append(f"{cell}: {taken.first_failure}")
        if not taken.answers:
            raise RuntimeError(f"{cell} got no answer: {taken.first_failure or 'the server is silent'}")
        return self._result(cell, taken, rows / max(runs, 1))

    def _result(self, cell: Cell, taken: Taken, batch_rows: float) -> Result:
        worker, supervisor = (1e3 * s / taken.answers for s in (taken.server.workers, taken.server.supervisor))
        floor = self.floors[cell.model][-1]
        bare = cost_at(batch_rows, floor.busy)
        server = taken.server.workers + taken.server.supervisor
        return Result(
            requests_per_s=taken.answers / taken.seconds,
            p50_ms=taken.p50_ms,
            p99_ms=taken.p99_ms,
            worker_ms=worker,
            supervisor_ms=supervisor,
            cpu_ms=worker + supervisor,
            batch_rows=batch_rows,
            floor_ms=bare,
            alone_ms=cost_at(batch_rows, floor.alone),
            overhead_ms=worker + supervisor - bare,
            generator=taken.generator_cpu / taken.seconds,
            others=max(0.0, taken.server.machine - server - taken.generator_cpu) / taken.seconds,
            failed=taken.failed,
            wrong=self._wrong(cell, taken),
        )

    def _wrong(self, cell: Cell, taken: Taken) -> int:
        """Sampled answers that are not what the graph gives in this process."""
        expected, read = self._subjects[cell.model].expected, WIRES[cell.wire].read
        return sum(not np.allclose(read(answer), expected[i], RTOL, ATOL) for i, answer in taken.kept)


def batches(url: str, model: str) -> tuple[float, float]:
    """Rows and forward passes of a model since the server's start, from its metrics."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = {"sum": 0.0, "count": 0.0}
    for line in text.splitlines():
        for part in found:
            if line.startswith(f"pressroom_batch_rows_{part}{{") and f'model="{model}"' in line:
                found[part] += float(line.rpartition(" ")[2])
    return found["sum"], found["count"]
