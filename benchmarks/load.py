"""The load generator: a process of its own that runs one measurement after another on request.

It also reads the server's CPU account, exactly at the edges of the measured window.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import uvloop

from benchmarks.cpu import CpuReading, ServerCpu
from benchmarks.http2_line import Http2Line, grpc_message
from benchmarks.windows import split_windows
from benchmarks.wires import WIRES
from pressroom.bench_http import HttpLine, Outcome
from pressroom.bench_load import Load, MakeLine, Tally
from pressroom.bench_stats import Window

SEED = 1  # of an open loop's times


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One measurement to make.

    wire     names, with the model, the requests that are sent
    pid      supervising process of the server
    clients  closed-loop clients, >= 1; 0 with a rate
    rate     requests a second of an open loop (Poisson)
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
    rate: float = 0.0


@dataclass(frozen=True)
class Prepared:
    """Requests to send around and around: HTTP/1.1 requests with their heads, or gRPC messages."""

    requests: list[bytes]
    grpc: bool


Prepare = Callable[[Shot], Prepared]


def forecasts() -> Prepare:
    """Requests of WIRES for all windows of the test rows."""
    windows = split_windows()

    def prepare(shot: Shot) -> Prepared:
        wire = WIRES[shot.wire]
        return Prepared([wire.build(shot.model, windows, i) for i in range(len(windows))], wire.grpc)

    return prepare


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
    """Starts the process, hands it shots, ends it. source: makes in that process what makes the requests of a shot."""

    def __init__(self, source: Callable[[], Prepare] = forecasts) -> None:
        self._source = source

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._source), daemon=True)
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


def _serve(shots: Connection, source: Callable[[], Prepare]) -> None:
    """In the generator's process: answer shots until the other end is closed."""
    prepare = source()
    known: dict[tuple[str, str], Prepared] = {}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        while True:
            try:
                shot = shots.recv()
            except EOFError:
                return
            key = (shot.wire, shot.model)
            if key not in known:
                known[key] = _framed(prepare(shot))
            shots.send(runner.run(_take(shot, known[key])))


def _framed(prepared: Prepared) -> Prepared:
    if prepared.grpc:
        prepared = Prepared([grpc_message(raw) for raw in prepared.requests], grpc=True)
    gc.collect()
    gc.freeze()  # the prepared bytes need no second look
    return prepared


async def _take(shot: Shot, prepared: Prepared) -> Taken:
    tally, load, make = Tally(prepared.requests), Load(shot.clients, shot.rate), _lines(shot, prepared.grpc)
    window, used, failed = await one_window(tally, load, make, shot.pid, shot.warm, shot.seconds, SEED)
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


async def one_window(
    tally: Tally, load: Load, make: MakeLine, pid: int, warm: float, seconds: float, seed: int
) -> tuple[Window, CpuReading, Counter[str]]:
    """A window of `seconds` after `warm` seconds of load, the CPU the server `pid` used in it, and what failed.

    Failures are counted outside the window, too: nothing may fail.
    """
    account = ServerCpu(pid)
    async with load.at_work(tally, make, seed):
        await asyncio.sleep(warm)
        before, warming = account.read(), tally.turn()
        await asyncio.sleep(seconds)
        used, window = account.read().since(before), tally.turn()
    return window, used, warming.failed + window.failed + tally.window.failed


def _lines(shot: Shot, over_grpc: bool) -> MakeLine:
    """A maker of lines: a connection for each client, over HTTP as over gRPC."""
    line = Http2Line if over_grpc else HttpLine
    return lambda: line(shot.host, shot.port)
