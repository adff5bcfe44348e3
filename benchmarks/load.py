"""The load generator: a process of its own that runs one measurement after another on request.

It also reads the server's CPU account, exactly at the edges of the measured window.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import uvloop

from benchmarks.cpu import CpuReading, ServerCpu
from benchmarks.windows import Windows, split_windows
from benchmarks.wires import WIRES
from pressroom.bench_grpc import GrpcLine, open_channel
from pressroom.bench_http import HttpLine, Outcome
from pressroom.bench_load import MakeLine, Tally, closed_loop


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One measurement to make.

    wire     key of WIRES
    pid      supervising process of the server
    clients  closed-loop clients, >= 1
    warm     seconds before the window
    seconds  length of the window
    """

    wire: str
    model: str
    host: str
    port: int
    pid: int
    clients: int
    warm: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What one measurement gave: the window's length, good and failed answers, latencies, and who used the CPU."""

    seconds: float
    answers: int
    failed: int
    first_failure: str
    p50_ms: float
    p99_ms: float
    server: CpuReading
    generator_cpu: float
    kept: list[tuple[int, Outcome]]


class LoadGenerator:
    """Starts the process, hands it shots, ends it."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        return self

    def take(self, shot: Shot) -> Taken:
        """Make one measurement. Raises RuntimeError if the generator failed."""
        self._ours.send(shot)
        try:
            answer = self._ours.recv()
        except EOFError:
            raise RuntimeError("the load generator ended; its error is above") from None
        assert isinstance(answer, Taken)
        return answer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ours.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.terminate()


def _serve(shots: Connection) -> None:
    """In the generator's process: answer shots until the other end is closed."""
    windows = split_windows()
    prepared: dict[tuple[str, str], list[bytes]] = {}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        while True:
            try:
                shot = shots.recv()
            except EOFError:
                return
            key = (shot.wire, shot.model)
            if key not in prepared:
                prepared[key] = _prepare(shot, windows)
            shots.send(runner.run(_take(shot, prepared[key])))


def _prepare(shot: Shot, windows: Windows) -> list[bytes]:
    requests = [WIRES[shot.wire].build(shot.model, windows, i) for i in range(len(windows))]
    gc.collect()
    gc.freeze()  # the prepared bytes need no second look
    return requests


async def _take(shot: Shot, requests: list[bytes]) -> Taken:
    tally = Tally(requests)
    account = ServerCpu(shot.pid)
    async with _lines(shot) as make, closed_loop(tally, make, shot.clients):
        await asyncio.sleep(shot.warm)
        before, warming = account.read(), tally.turn()
        await asyncio.sleep(shot.seconds)
        used, window = account.read().since(before), tally.turn()
    failed = warming.failed + window.failed + tally.window.failed  # counted outside the window, too: nothing may fail
    return Taken(
        seconds=window.seconds,
        answers=len(window.latencies),
        failed=failed.total(),
        first_failure="".join(f"{failure}: {tally.first_said[failure]}" for failure in list(failed)[:1]),
        p50_ms=window.percentile_ms(50),
        p99_ms=window.percentile_ms(99),
        server=used,
        generator_cpu=window.own_cpu,
        kept=tally.kept,
    )


@asynccontextmanager
async def _lines(shot: Shot) -> AsyncIterator[MakeLine]:
    """A maker of lines: a connection for each client, over HTTP as over gRPC."""
    if not WIRES[shot.wire].grpc:
        yield lambda: HttpLine(shot.host, shot.port)
        return
    channels = [open_channel(f"{shot.host}:{shot.port}", None, tls=False) for _ in range(shot.clients)]
    left = iter(channels)
    try:
        yield lambda: GrpcLine(next(left))
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))
