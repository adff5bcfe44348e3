"""CPU time of other processes, in seconds with nanosecond resolution (Linux).

Throughput on a shared machine depends on who else is running; CPU time a request hardly does, so it is the number to
compare. A server is its supervising process and everything below it: the workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PROCESS_CLOCK = 2  # kernel: clock id of a process's CPU time is (~pid << 3) | 2


@dataclass(frozen=True)
class CpuReading:
    """CPU seconds spent since each process began.

    workers     processes below the supervisor, together
    supervisor  the supervising process itself
    machine     all cores, whoever used them (10 ms resolution)
    """

    workers: float
    supervisor: float
    machine: float

    def since(self, earlier: CpuReading) -> CpuReading:
        return CpuReading(
            self.workers - earlier.workers, self.supervisor - earlier.supervisor, self.machine - earlier.machine
        )


def process_cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a living process. Raises OSError if there is none."""
    return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)


def descendants(pid: int) -> list[int]:
    """Living children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for parent in front for child in children.get(parent, [])]
        found += front
    return found


def machine_busy_seconds() -> float:
    """CPU seconds all cores spent on anything but waiting, since boot."""
    fields = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@contextmanager
def busy_neighbours() -> Iterator[None]:
    """Keep up to two other cores busy inside the block.

    Where two "cores" are threads of one, the same work costs up to twice the CPU time when the other one is busy; a
    server under load always has it busy, so what it is compared with must have, too.
    """
    count = min(2, len(os.sched_getaffinity(0)) - 1)
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class ServerCpu:
    """The CPU account of one server. Its workers are those that run when the account is opened.

    A worker that ends meanwhile keeps what it was last seen to have used.
    """

    def __init__(self, supervisor: int) -> None:
        self._supervisor = supervisor
        self._workers = dict.fromkeys(descendants(supervisor), 0.0)

    def read(self) -> CpuReading:
        for pid in self._workers:
            with suppress(OSError):
                self._workers[pid] = process_cpu_seconds(pid)
        workers = sum(self._workers.values())
        return CpuReading(workers, process_cpu_seconds(self._supervisor), machine_busy_seconds())
