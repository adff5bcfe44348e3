"""A real `pressroom serve` process for tests: started on free ports, asked until ready, stopped by its own pid.

Nothing here knows what the server should answer. Waiting is always polling against a deadline.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")

PRESSROOM = str(Path(sys.executable).with_name("pressroom"))
BENTOML = str(Path(sys.executable).with_name("bentoml"))
STARTING_SECONDS = 90.0
STOPPING_SECONDS = 60.0
_NO_TLS = ssl.create_default_context()  # making one costs httpx more than the request
_OURS = re.compile(r"PRESSROOM_|BENTOML_|PROMETHEUS_|OMP_|.*_proxy$", re.IGNORECASE)


def free_ports(count: int) -> list[int]:
    """Loopback ports nothing listens on, all different."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def eventually(condition: Callable[[], T], what: str, seconds: float = 30.0) -> T:
    """The first true value of `condition`, asked again and again; AssertionError saying `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{seconds:.0f} s passed and still not: {what}"
        time.sleep(0.01)


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait on this event loop until `condition` is true; TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of other servers, with the given store."""
    kept = {key: value for key, value in os.environ.items() if not _OURS.match(key)}
    ours = {"BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    return kept | ours | dict(extra or {})


@dataclass(kw_only=True)
class LiveServer:
    """One running server."""

    process: subprocess.Popen[bytes]
    port: int
    grpc_port: int
    home: Path
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """host:port of HTTP, as tritonclient wants it."""
        return f"127.0.0.1:{self.port}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def log_tail(self, characters: int = 6000) -> str:
        return self.log.read_text(errors="replace")[-characters:]

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request on a connection of its own."""
        return httpx.request(method, self.url + path, **{"timeout": 30, "verify": _NO_TLS, **options})

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample of /metrics by name and labels."""
        text = self.get("/metrics").text
        families = text_string_to_metric_families(text)
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of that name that carry all these labels."""
        wanted = set(labels.items())
        return sum(value for (found, carried), value in self.samples().items() if found == name and wanted <= carried)

    def wait_for(self, path: str, status: int = 200) -> httpx.Response:
        """Poll a path until it answers with this status; fails at once if that has become impossible."""

        def answered() -> httpx.Response | None:
            assert self.process.poll() is None, f"the server ended ({self.process.returncode}):\n{self.log_tail()}"
            assert not (path == "/readyz" and status == 200 and "not ready:" in self.log_tail()), self.log_tail()
            try:
                response = self.get(path)
            except httpx.TransportError:
                return None
            return response if response.status_code == status else None

        try:
            return eventually(answered, f"{path} answers {status}", STARTING_SECONDS)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.log_tail()}") from None

    def children(self) -> list[int]:
        """Process ids of the supervisor's children."""
        found = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in found for pid in file.read_text().split()]

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = STOPPING_SECONDS) -> int:
        """The exit status, once it has ended by itself."""
        return self.process.wait(seconds)

    def stop(self) -> int:
        """SIGTERM, then wait; a server that does not end is killed and reported."""
        if self.process.poll() is None:
            self.terminate()
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own group: see start_new_session
            self.process.wait()
            raise AssertionError(
                f"the server did not stop within {STOPPING_SECONDS:.0f} s\n{self.log_tail()}"
            ) from None


StartServer = Callable[..., LiveServer]  # the fixture `start_server`


@contextmanager
def running_server(
    home: Path,
    log: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = (PRESSROOM, "serve", "gateway"),
    cwd: Path | None = None,
    ready: bool = True,
    ports: tuple[int, int] | None = None,
) -> Iterator[LiveServer]:
    """A server over the store in `home`, its output in `log`.

    arguments, environment  further flags and settings
    ready                   wait for /readyz (else only for /livez)
    """
    port, grpc_port = ports or free_ports(2)
    settings = {"PRESSROOM_PORT": str(port), "PRESSROOM_GRPC_PORT": str(grpc_port), **(environment or {})}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments],
            env=clean_environment(home, settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            start_new_session=True,
        )
    server = LiveServer(process=process, port=port, grpc_port=grpc_port, home=home, log=log)
    try:
        server.wait_for("/readyz" if ready else "/livez")
        yield server
    finally:
        server.stop()
