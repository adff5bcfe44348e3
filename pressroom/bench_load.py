"""Closed and open loops over lines (`HttpLine`, `GrpcLine`): who asks when, and what is counted.

closed  each of N clients sends its next request when it has its answer: the rate follows the server
open    requests are sent at random times (Poisson) at a mean rate, whatever is still unanswered: as the world does
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Protocol

from pressroom.bench_http import Answered, Outcome
from pressroom.bench_stats import Window

KEEP_EVERY = 11  # of a window's good answers, for the check of their values; odd: every request of a few comes round
MOST_KEPT = 200  # of a window
FINISH_SECONDS = 10.0
AGAIN_SECONDS = 0.1  # between two tries to connect
MOST_IN_FLIGHT = 1024  # of an open loop; what would be sent beyond counts as failed
NOT_SENT = "not sent: too many unanswered"


class Line(Protocol):
    """Something that carries one request at a time."""

    usable: bool

    async def open(self) -> None:
        """Connect. Raises OSError."""

    def ask(self, request: bytes, answered: Answered) -> None:
        """Send; `answered` is called once."""

    def close(self) -> None:
        """Forget a request on its way."""


MakeLine = Callable[[], Line]


class Tally:
    """What the clients of one measurement share: the requests in turn, and the window that counts their answers."""

    def __init__(self, requests: Sequence[bytes], window: Callable[[], Window] = Window) -> None:
        self._requests = requests
        self._next = 0
        self._new = window
        self._since = (perf_counter(), process_time())
        self.stopping = False
        self.window = window()
        self.first_said: dict[str, str] = {}  # failure -> what its first answer said
        self.kept: list[tuple[int, Outcome]] = []  # index of the request, its answer

    def take(self) -> tuple[int, bytes]:
        """The next request, around and around."""
        index = self._next
        self._next = (index + 1) % len(self._requests)
        return index, self._requests[index]

    def count(self, seconds: float, index: int, outcome: Outcome) -> None:
        if outcome.failure:
            self.fail(outcome.failure, outcome.body)
            return
        latencies = self.window.latencies
        latencies.append(seconds)
        if len(latencies) % KEEP_EVERY == 1 and len(latencies) < KEEP_EVERY * MOST_KEPT:
            self.kept.append((index, outcome))

    def fail(self, failure: str, said: bytes = b"") -> None:
        self.window.failed[failure] += 1
        self.first_said.setdefault(failure, said[:300].decode(errors="replace"))

    def turn(self) -> Window:
        """End the window and begin the next."""
        done, self.window = self.window, self._new()
        began, self._since = self._since, (perf_counter(), process_time())
        done.seconds, done.own_cpu = self._since[0] - began[0], self._since[1] - began[1]
        return done


class Client:
    """One client of a closed loop."""

    def __init__(self, line: Line, tally: Tally, finished: asyncio.Future[None]) -> None:
        self._line, self._tally, self._finished = line, tally, finished
        self._opening: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """The next request, on a new connection if the last one has ended."""
        if self._tally.stopping:
            if not self._finished.done():
                self._finished.set_result(None)
        elif not self._line.usable:
            self._opening = asyncio.ensure_future(self._open())
        else:
            self._index, request = self._tally.take()
            self._sent = perf_counter()
            self._line.ask(request, self._answered)

    def _answered(self, outcome: Outcome) -> None:
        self._tally.count(perf_counter() - self._sent, self._index, outcome)
        self.ask()

    async def _open(self) -> None:
        try:
            await self._line.open()
        except OSError as error:
            self._tally.fail("no connection", str(error).encode())
            await asyncio.sleep(AGAIN_SECONDS)
        self.ask()


@asynccontextmanager
async def closed_loop(tally: Tally, make: MakeLine, clients: int) -> AsyncIterator[None]:
    """`clients` clients at work inside the block; at its end they finish their request."""
    loop = asyncio.get_running_loop()
    lines = [make() for _ in range(clients)]
    finished = [loop.create_future() for _ in lines]
    for line, future in zip(lines, finished, strict=True):
        Client(line, tally, future).ask()
    try:
        yield
    finally:
        tally.stopping = True
        await asyncio.wait(finished, timeout=FINISH_SECONDS)
        for line in lines:
            line.close()


class Arrivals:
    """The requests of an open loop, each on an idle line or a new one."""

    def __init__(self, tally: Tally, make: MakeLine, rate: float, seed: int) -> None:
        self._tally, self._make, self._rate = tally, make, rate
        self._random = random.Random(seed)
        self._idle: list[Line] = []
        self._working: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Send until cancelled. Several requests that fall into one tick of the clock (1 ms) leave together."""
        due = perf_counter()
        while True:
            due += self._random.expovariate(self._rate)
            wait = due - perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            self._tally.window.lateness = max(self._tally.window.lateness, perf_counter() - due)
            self._send()

    def _send(self) -> None:
        if len(self._working) >= MOST_IN_FLIGHT:
            self._tally.fail(NOT_SENT)
            return
        task = asyncio.ensure_future(self._ask())
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _ask(self) -> None:
        """One request; time to connect, where that is needed, is part of its latency."""
        index, request = self._tally.take()
        sent = perf_counter()
        line = self._idle.pop() if self._idle else self._make()
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            if not line.usable:
                await line.open()
        except OSError as error:
            self._tally.fail("no connection", str(error).encode())
            return
        line.ask(request, answer.set_result)
        try:
            outcome = await answer
        except asyncio.CancelledError:
            line.close()
            raise
        self._tally.count(perf_counter() - sent, index, outcome)
        self._idle.append(line)

    async def finish(self) -> None:
        """Wait for what is on its way, then close all lines."""
        if self._working:
            await asyncio.wait(self._working, timeout=FINISH_SECONDS)
        for task in self._working:
            task.cancel()
        for line in self._idle:
            line.close()


@asynccontextmanager
async def open_loop(tally: Tally, make: MakeLine, rate: float, seed: int) -> AsyncIterator[None]:
    """Requests at `rate` a second inside the block; at its end those on their way are answered."""
    arrivals = Arrivals(tally, make, rate, seed)
    sending = asyncio.ensure_future(arrivals.run())
    try:
        yield
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        await arrivals.finish()


@dataclass(frozen=True)
class Load:
    """A closed loop of `clients`, or an open one at `rate` requests a second."""

    clients: int = 0
    rate: float = 0.0

    @property
    def closed(self) -> bool:
        return not self.rate

    def __str__(self) -> str:
        return f"{self.rate:g}/s" if self.rate else f"{self.clients} client{'s' * (self.clients > 1)}"

    def at_work(self, tally: Tally, make: MakeLine, seed: int) -> AbstractAsyncContextManager[None]:
        """The load inside a block."""
        return closed_loop(tally, make, self.clients) if self.closed else open_loop(tally, make, self.rate, seed)
