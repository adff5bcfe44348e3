"""A server of our own, to show or measure it: free loopback ports, ready when handed out, stopped afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

HOST = "127.0.0.1"
START_SECONDS = 180.0
STOP_SECONDS = 30.0


class ServerError(RuntimeError):
    """The gateway did not start; the message ends with the last lines of its log."""


@dataclass(frozen=True)
class Gateway:
    """A running gateway; `pid` is its supervising process."""

    port: int
    grpc_port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def grpc_url(self) -> str:
        return f"grpc://{HOST}:{self.grpc_port}"


@contextmanager
def gateway(settings: Mapping[str, str] | None = None, service: str = "gateway") -> Iterator[Gateway]:
    """Start `pressroom serve SERVICE` on the current store and wait until it is ready. Raises ServerError.

    settings  environment of the server beyond ours, e.g. {"PRESSROOM_MAX_BATCH_ROWS": "1"}
    """
    port, grpc_port = free_ports(2)
    command = [sys.executable, "-c", "from pressroom.cli import main; main()"]
    command += ["serve", service, "--host", HOST, "--port", str(port), "--grpc-port", str(grpc_port)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(settings or {})},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            running = Gateway(port, grpc_port, process.pid)
            if not _becomes_ready(running.url, process):
                log.seek(0)
                raise ServerError("the gateway did not become ready:\n" + "".join(log.readlines()[-20:]))
            yield running
        finally:
            _stop(process)


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _becomes_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to drain; after a while, end the whole session it leads."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
