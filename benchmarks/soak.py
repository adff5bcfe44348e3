"""Does the server's memory stand still? Resident memory after 20,000 and after 200,000 requests, under full load.

    python -m benchmarks.soak [--requests 200000] [--json out/soak.json]

64 clients send raw tensors over REST without pause to a gateway of our own. The figure is the ratio of the workers'
resident memory at the two points; the promise is 1.05. Exit status 1 if it is broken, or if any request failed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer

from benchmarks.command import run
from benchmarks.load import LoadGenerator, Shot
from benchmarks.server import HOST, Gateway, gateway, use_own_store

MODEL = "card-etth1"
CLIENTS = 64
SHOT_SECONDS = 4.0
PROMISE = 1.05
MIB = 2**20


@dataclass(frozen=True)
class Point:
    """Requests answered so far, resident MiB of the workers, and failures among the requests."""

    requests: int
    resident_mib: float
    failed: int


@dataclass(frozen=True)
class Soak:
    """Both points, how long it took, and the ratio that was promised to stay below `PROMISE`."""

    first: Point
    last: Point
    seconds: float

    @property
    def ratio(self) -> float:
        return self.last.resident_mib / self.first.resident_mib

    @property
    def holds(self) -> bool:
        return self.ratio <= PROMISE and not self.last.failed


def workers_mib(pid: int) -> float:
    """Resident memory of a supervisor's children, MiB."""
    return float(sum(child.memory_info().rss for child in psutil.Process(pid).children())) / MIB


def soak(server: Gateway, first: int, last: int, say: Callable[[str], None]) -> Soak:
    """Load the server until it has answered `last` requests; look at its memory at `first` and at the end."""
    began, answered, failed, early = time.monotonic(), 0, 0, None
    with LoadGenerator() as load:
        while answered < last:
            taken = load.take(_shot(server))
            answered, failed = answered + taken.answers, failed + taken.failed
            point = Point(answered, round(workers_mib(server.pid), 1), failed)
            say(f"{answered:8,} requests  {point.resident_mib:7.1f} MiB  {taken.answers / taken.seconds:7,.0f}/s")
            early = early or (point if answered >= first else None)
    assert early is not None
    return Soak(early, point, round(time.monotonic() - began, 1))


def _shot(server: Gateway) -> Shot:
    return Shot(
        wire="oip-binary",
        model=MODEL,
        host=HOST,
        port=server.port,
        pid=server.pid,
        clients=CLIENTS,
        warm=0.0,
        seconds=SHOT_SECONDS,
    )


def main(
    requests: Annotated[int, typer.Option(min=1, help="Requests in all.")] = 200_000,
    first: Annotated[int, typer.Option(min=1, help="Requests before the first look.")] = 20_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure resident memory under a long load."""
    use_own_store()
    from pressroom.bundled import press_bundled

    press_bundled()
    with gateway({"PRESSROOM_MODELS": MODEL}) as server:
        found = soak(server, first, requests, typer.echo)
    typer.echo(
        f"resident memory after {found.first.requests:,} requests {found.first.resident_mib} MiB, "
        f"after {found.last.requests:,} {found.last.resident_mib} MiB: ratio {found.ratio:.3f} (promise {PROMISE}), "
        f"{found.last.failed} failed, {found.seconds} s"
    )
    if json_file is not None:
        json_file.write_text(json.dumps({**asdict(found), "ratio": found.ratio}, indent=1) + "\n")
    raise typer.Exit(not found.holds)


if __name__ == "__main__":
    run(main, "python -m benchmarks.soak --requests 200000")
