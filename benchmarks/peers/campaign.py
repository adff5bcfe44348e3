"""Every measurement of a run, in which order, and what each gave.

One model after another: all servers are started on it and then measured in turns, so that whatever else the machine
does hits all of them; a round visits every server with every load, the next one in the other direction. Servers that
are not being measured are stopped (SIGSTOP), because some of them poll.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.environments import PeerMissing
from benchmarks.load import LoadGenerator, Shot, Taken
from benchmarks.local import cpu_ms_per_row
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.processes import Running, served
from benchmarks.peers.subjects import Subject
from benchmarks.peers.wires import WIRES, is_right
from benchmarks.server import HOST
from services.core.runtime import OnnxRuntime, RuntimeOptions

Tick = Callable[[str, int], None]  # what comes next, and measurements just begun
FLOOR_ROWS = (1, 32)
FLOOR_SECONDS = 0.3


@dataclass(frozen=True, order=True)
class Loop:
    """clients: of a closed loop; share: of an open loop, requests/s as a share of what the busiest closed loop gave."""

    clients: int = 0
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.clients} clients" if self.clients else f"open, {self.share:.0%}"


@dataclass(frozen=True)
class Cell:
    """One line of the result table; contender and wire by their keys."""

    subject: str
    contender: str
    wire: str
    load: Loop


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure: windows of `seconds` after `warm` seconds, everything `rounds` times."""

    subjects: Sequence[str]
    contenders: Sequence[str]
    clients: Sequence[int] = (1, 16, 64)
    shares: Sequence[float] = (0.5, 0.8)
    rounds: int
    seconds: float
    warm: float

    def loads(self) -> list[Loop]:
        """Closed loops first: the open ones need what they gave."""
        return [Loop(clients=n) for n in sorted(self.clients)] + [Loop(share=part) for part in self.shares]

    def shots(self) -> int:
        wires = sum(len(CONTENDERS[name].wires) for name in self.contenders)
        return len(self.subjects) * self.rounds * wires * len(self.loads())


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement. CPU in milliseconds a request, all processes of the server; shares are of one core.

    others  cores used by processes that are neither the server nor the load generator
    """

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    generator: float
    others: float
    answers: int
    failed: int
    checked: int
    wrong: int


class Campaign:
    """Takes every measurement of a plan."""

    def __init__(self, plan: Plan, pythons: Mapping[str, Path]) -> None:
        self.plan = plan
        self._pythons = pythons
        self.results: dict[Cell, list[Result]] = {}
        self.memory: dict[tuple[str, str], float] = {}  # subject, contender -> MiB
        self.floors: dict[str, dict[int, float]] = {}  # subject -> rows of a batch -> CPU ms a row
        self.missing: dict[str, str] = {}
        self.failures: list[str] = []
        self.load = os.getloadavg()[0]

    def run(self, subject: Subject, generator: LoadGenerator, tick: Tick) -> None:
        """All rounds on one model."""
        self.floors[subject.name] = {rows: floor(subject, rows) for rows in FLOOR_ROWS}
        with ExitStack() as stack:
            servers = self._start(subject, stack, tick)
            for number in range(self.plan.rounds):
                for cell in self._order(subject, servers, number):
                    tick(
                        f"round {number + 1}: {subject.name}, {cell.contender} {WIRES[cell.wire].title}, {cell.load}", 1
                    )
                    found = self._measure(cell, subject, servers[cell.contender], generator)
                    self.results.setdefault(cell, []).append(found)
            self.memory |= {(subject.name, name): server.memory_mib() for name, server in servers.items()}

    def _start(self, subject: Subject, stack: ExitStack, tick: Tick) -> dict[str, Running]:
        """One after another; each sleeps while the next one starts."""
        servers = {}
        for name, python in self._pythons.items():
            tick(f"{subject.name}: start {name}", 0)
            try:
                servers[name] = stack.enter_context(served(CONTENDERS[name], python, subject))
            except PeerMissing as error:
                self.missing[f"{name}, {subject.name}"] = str(error)
                continue
            servers[name].pause()
        return servers

    def _order(self, subject: Subject, servers: Mapping[str, Running], number: int) -> Iterator[Cell]:
        pairs = [(name, wire) for name in servers for wire in CONTENDERS[name].wires]
        for load in self.plan.loads():
            for name, wire in pairs if number % 2 == 0 else reversed(pairs):
                yield Cell(subject.name, name, wire, load)

    def _measure(self, cell: Cell, subject: Subject, server: Running, generator: LoadGenerator) -> Result:
        wire = WIRES[cell.wire]
        shot = Shot(
            wire=cell.wire,
            model=cell.subject,
            host=HOST,
            port=server.grpc_port if wire.grpc else server.port,
            pid=server.pid,
            clients=cell.load.clients,
            rate=self._rate(cell),
            warm=self.plan.warm,
            seconds=self.plan.seconds,
        )
        server.resume()
        taken = generator.take(shot)
        server.pause()
        result = to_result(taken, sum(not is_right(wire, answer, subject, i) for i, answer in taken.kept))
        if result.failed or result.wrong or not result.answers:
            why = taken.first_failure or ("a wrong answer" if result.wrong else "no answer")
            self.failures.append(f"{cell.subject}, {cell.contender} {wire.title}, {cell.load}: {why}")
        return result

    def _rate(self, cell: Cell) -> float:
        """Requests a second of an open loop; 0 for a closed one."""
        if not cell.load.share:
            return 0.0
        busiest = Cell(cell.subject, cell.contender, cell.wire, Loop(clients=max(self.plan.clients)))
        return max(1.0, cell.load.share * median(one.requests_per_s for one in self.results[busiest]))


def to_result(taken: Taken, wrong: int) -> Result:
    """A measurement as plain numbers; without an answer its CPU a request is that of one."""
    used = taken.server.workers + taken.server.supervisor
    return Result(
        requests_per_s=taken.answers / taken.seconds,
        p50_ms=taken.p50_ms,
        p99_ms=taken.p99_ms,
        cpu_ms=1e3 * used / max(taken.answers, 1),
        generator=taken.generator_cpu / taken.seconds,
        others=max(0.0, taken.server.machine - used - taken.generator_cpu) / taken.seconds,
        answers=taken.answers,
        failed=taken.failed,
        checked=len(taken.kept),
        wrong=wrong,
    )


def floor(subject: Subject, rows: int) -> float:
    """CPU milliseconds a row of the bare graph in this process, in batches of `rows`."""
    run = OnnxRuntime(subject.graph, RuntimeOptions(threads=1)).run
    batch = {name: tensor[:rows] for name, tensor in subject.inputs.items()}
    return cpu_ms_per_row(run, batch, rows, FLOOR_SECONDS)
