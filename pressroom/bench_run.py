"""One measurement after another: a wire under a load, in windows that are repeated until three agree."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from export.errors import ExportError
from pressroom.bench_grpc import MOST_CHANNELS
from pressroom.bench_http import Outcome
from pressroom.bench_load import Load, MakeLine, Tally
from pressroom.bench_requests import Payload, numbers, prepare
from pressroom.bench_stats import AGREEING, Window, agree, joined
from pressroom.bench_target import Model, Server

Progress = Callable[[str, int, int], None]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How windows follow each other.

    seconds      length of one
    warm         seconds of load before the first
    stability    largest distance from the mean of three windows, as a share of it
    max_windows  then it is over, stable or not
    seed         of the arrivals of open loops
    """

    seconds: float = 2.0
    warm: float = 1.0
    stability: float = 0.1
    max_windows: int = 10
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every wire under every load.

    tolerance  of an answer's numbers, a share of the first answer's largest; None: answers are not compared
    """

    wires: Sequence[str]
    loads: Sequence[Load]
    pace: Pace
    tolerance: float | None = 0.01


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one wire gave under one load.

    windows  all of them, oldest first
    settled  the last three as one: what the figures are of
    wrong    answers, of the compared ones, with other numbers than the first
    """

    wire: str
    load: Load
    windows: Sequence[Window]
    settled: Window
    stable: bool
    failed: Counter[str]
    first_said: dict[str, str]
    compared: int = 0
    wrong: int = 0

    @property
    def fine(self) -> bool:
        return self.stable and not self.failed and not self.wrong


async def measure(server: Server, model: Model, payload: Payload, plan: Plan, report: Progress) -> list[Result]:
    """Carry out a plan. Raises ExportError if a first request is not answered."""
    results = []
    for wire in plan.wires:
        requests = prepare(wire, payload, model, server)
        async with _lines(server, wire, plan.loads) as make:
            outcomes = await ask_once(make, requests)
            references = None if plan.tolerance is None else [_reference(wire, outcome) for outcome in outcomes]
            for load in plan.loads:
                tally = Tally(requests)
                windows = await settle(f"{wire}, {load}", tally, load, make, plan.pace, report)
                wrong = _wrong(wire, tally, references, plan.tolerance)
                compared = len(tally.kept) if references else 0
                results.append(result(wire, load, tally, windows, plan.pace, compared=compared, wrong=wrong))
    return results


@asynccontextmanager
async def _lines(server: Server, wire: str, loads: Sequence[Load]) -> AsyncIterator[MakeLine]:
    if wire != "grpc":
        yield server.http_lines()
        return
    most = max(load.clients for load in loads) or MOST_CHANNELS
    make, channels = server.grpc_lines(min(most, MOST_CHANNELS))
    try:
        yield make
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


async def ask_once(make: MakeLine, requests: Sequence[bytes]) -> list[Outcome]:
    """Every request once, one after another. Raises ExportError at the first that is not answered well."""
    outcomes = []
    for request in requests:
        line = make()
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            await line.open()
        except OSError as error:
            raise ExportError(f"no connection: {error}", "is a server running there?") from None
        line.ask(request, answer.set_result)
        outcome = await answer
        line.close()
        if outcome.failure:
            said = outcome.body[:400].decode(errors="replace")
            raise ExportError(
                f"the first request failed: {outcome.failure}: {said}", "`--input FILE` sends a request of yours"
            )
        outcomes.append(outcome)
    return outcomes


async def settle(what: str, tally: Tally, load: Load, make: MakeLine, pace: Pace, report: Progress) -> Sequence[Window]:
    """Windows until three agree; a window without an answer, or too many windows, end it as well."""
    windows: list[Window] = []
    async with load.at_work(tally, make, pace.seed):
        await asyncio.sleep(pace.warm)
        tally.turn()
        while len(windows) < pace.max_windows and not _agree(windows, load, pace):
            said = f": {windows[-1].said()}" if windows else ""
            report(f"{what}{said}", len(windows), pace.max_windows)
            await asyncio.sleep(pace.seconds)
            windows.append(tally.turn())
            if not windows[-1].latencies:
                break
    return windows


def result(
    wire: str,
    load: Load,
    tally: Tally,
    windows: Sequence[Window],
    pace: Pace,
    *,
    compared: int = 0,
    wrong: int = 0,
) -> Result:
    """What the windows of one load say."""
    return Result(
        wire=wire,
        load=load,
        windows=windows,
        settled=joined(windows[-AGREEING:]),
        stable=_agree(windows, load, pace),
        failed=joined(windows).failed + tally.window.failed,  # those of the last requests, too
        first_said=tally.first_said,
        compared=compared,
        wrong=wrong,
    )


def _agree(windows: Sequence[Window], load: Load, pace: Pace) -> bool:
    return agree([window.figures(closed=load.closed) for window in windows], pace.stability)


def _reference(wire: str, outcome: Outcome) -> Numbers:
    try:
        return numbers(wire, outcome)
    except ValueError as error:
        raise ExportError(f"{wire}: {error}", "--no-compare takes answers as they come") from None


def _wrong(wire: str, tally: Tally, references: Sequence[Numbers] | None, tolerance: float | None) -> int:
    """Kept answers that are not the first answer to the same request."""
    if references is None or tolerance is None:
        return 0
    return sum(not _same(wire, outcome, references[index], tolerance) for index, outcome in tally.kept)


def _same(wire: str, outcome: Outcome, reference: Numbers, tolerance: float) -> bool:
    try:
        got = numbers(wire, outcome)
    except ValueError:
        return False
    if got.shape != reference.shape or not np.isfinite(got).all():
        return False
    return got.size == 0 or bool(np.abs(got - reference).max() <= tolerance * np.abs(reference).max())
