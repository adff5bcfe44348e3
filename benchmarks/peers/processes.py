"""A server and everything below it: started, asked until it answers, put to sleep, weighed, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cpu import descendants
from benchmarks.environments import PeerMissing
from benchmarks.llm_process import ONE_THREAD
from benchmarks.peers.contenders import SERVERS, Contender
from benchmarks.peers.subjects import Subject
from benchmarks.peers.wires import WIRES
from benchmarks.server import HOST, free_ports

START_SECONDS = 60.0
STOP_SECONDS = 8.0


@dataclass(frozen=True)
class Running:
    """A server that runs; `pid` is its first process."""

    port: int
    grpc_port: int
    pid: int

    def processes(self) -> list[int]:
        return [self.pid, *descendants(self.pid)]

    def pause(self) -> None:
        """No CPU for anything of it: a server that polls while it is idle costs its neighbours nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def memory_mib(self) -> float:
        """Proportional set size of all its processes: what two of them share counts once."""
        return sum(_pss_bytes(pid) for pid in self.processes()) / 2**20

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@contextmanager
def served(contender: Contender, python: Path, subject: Subject) -> Iterator[Running]:
    """A contender's server on a model, once it has answered a request. Raises PeerMissing."""
    port, grpc_port = free_ports(2)
    settings = {
        "PEER_MODEL": str(subject.description),
        "PEER_PORT": str(port),
        "PEER_GRPC_PORT": str(grpc_port),
        "PRESSROOM_MODELS": subject.name,
        "PYTHONPATH": str(SERVERS),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile("w+") as log:
        environment = {**os.environ, **ONE_THREAD, **settings, "TMPDIR": home, "HOME": home, "BENTOML_HOME": home}
        process = subprocess.Popen(
            contender.command(python, port, grpc_port),
            cwd=home,
            env={**environment, **contender.settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        running = Running(port, grpc_port, process.pid)
        try:
            if not _answers(running, contender, subject, process):
                log.seek(0)
                raise PeerMissing(f"{contender.name} did not answer: {_last_words(log.read())}")
            yield running
        finally:
            running.resume()  # to hear that it is to end
            stop(process)


def _answers(running: Running, contender: Contender, subject: Subject, process: subprocess.Popen[bytes]) -> bool:
    """Whether the first request of its first wire is answered with 200 in time."""
    row = {name: rows[0] for name, rows in subject.inputs.items()}
    request = WIRES[contender.wires[0]].build(subject.name, row)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection((HOST, running.port), timeout=5) as connection:
            connection.sendall(request)
            if connection.recv(12).startswith(b"HTTP/1.1 200"):
                return True
        time.sleep(0.2)
    return False


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-500:] or "no word why"


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; after a while end it and everything that was below it."""
    below = descendants(process.pid)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    for pid in (process.pid, *below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + STOP_SECONDS
    while any(map(is_alive, below)) and time.monotonic() < deadline:
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process exists and is more than an entry nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
