"""Adaptive batching: requests that can share a forward pass do, and none pays for another's fault.

A job is the tensors of one request, rows first. While a batch runs, jobs gather; when it ends, the oldest job's
compatible mates (same bucket: equal shapes beyond the first axis, equal dtypes and names) leave together, up to
`max_rows`. An idle model starts at once unless company has been coming: only then does it wait, at most
`max_delay_ms`, for as many rows as the last batch had, or half of `max_rows`: they run while the other half gathers.
The thread is handed a large batch while another one runs, so that the model computes while the server writes and reads.

- A request of more than `max_rows` rows is cut into pieces that queue like everyone else's.
- A batch that raises is retried by halves, so that only the guilty job fails.
- Expired and cancelled jobs are dropped before they run. A full queue refuses at once, with the time to come back.
- Interactive requests go before those marked `batch`, which are never passed over for more than `PATIENCE_S`.
- A model that fails repeatedly is given a pause (`services.core.circuit`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import Protocol

from services.core.call import Call
from services.core.circuit import Circuit
from services.core.deadlines import Deadlines
from services.core.errors import ApiError
from services.core.job import Job, Outcome, Waiter, cut, glue, join, split
from services.core.model_thread import ModelThread
from services.core.tensors import Tensors

log = logging.getLogger("pressroom.batcher")

PATIENCE_S = 2.0  # a `batch` request that waited this long goes first


@dataclass(frozen=True, kw_only=True)
class BatchPolicy:
    """How requests of one model are joined.

    max_rows        rows in one forward pass, >= 1; 1 switches batching off
    max_delay_ms    longest wait for company, >= 0; 0 = never wait
    max_queue_rows  rows that may wait; beyond this: 429 / RESOURCE_EXHAUSTED
    max_failures    consecutive failed requests that open the model's circuit, >= 1
    cooldown_s      seconds an open circuit refuses
    """

    max_rows: int = 64
    max_delay_ms: float = 2.0
    max_queue_rows: int = 2048
    max_failures: int = 10
    cooldown_s: float = 5.0


class BatchObserver(Protocol):
    """What the batcher reports; the metrics implement it."""

    def queue(self, rows: int) -> None: ...
    def batch(self, rows: int) -> None: ...
    def circuit(self, is_open: bool) -> None: ...


class Batcher:
    """The queue of one model. Lives in the event loop; `run` is called in its own thread.

    run    maps named tensors [rows, ...] to named tensors [rows, ...]; may raise
    ahead  batches the thread may have: it goes on with the second without waiting for the loop
    """

    ahead = 2

    def __init__(self, run: Callable[[Tensors], Tensors], policy: BatchPolicy, observer: BatchObserver) -> None:
        self.policy = policy
        self._run = run
        self._observer = observer
        self._thread = ModelThread()
        self._interactive: deque[Job] = deque()
        self._patient: deque[Job] = deque()  # priority `batch`
        self.circuit = Circuit(policy.max_failures, policy.cooldown_s)
        self._queued_rows = 0
        self._ahead_rows = 0  # of what the thread has and has not come to
        self._handed: deque[list[Job]] = deque()  # to the thread: the batch that runs, perhaps the one after it
        self._deadlines = Deadlines(self._unanswered)
        self._closed = False
        self._last_batch: tuple[int, int] = (1, 1)  # jobs, rows
        self._wait: asyncio.TimerHandle | None = None  # running out: start with what is there
        self._starting = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._rows_per_second = 1000.0

    async def submit(self, items: list[Tensors], call: Call) -> list[Tensors]:
        """Queue the tensors of one request and await their outputs.

        items  one entry for each set of equally shaped rows the request brings, usually one
        Raises ApiError: queue_full, shutting_down, circuit_open, deadline_exceeded, inference_failed.
        Cancelling the caller drops what has not begun.
        """
        cuts = [cut(tensors, self.policy.max_rows) for tensors in items]
        pieces = [piece for one in cuts for piece in one]
        jobs = [job for job, _ in pieces]
        self._enqueue(jobs, sum(job.rows for job in jobs), call)
        if len(pieces) == 1:  # nearly every request
            return [await self._outputs(*pieces[0], call)]
        try:
            outputs = {job: await future for job, future in pieces}
        finally:
            for piece in pieces:
                self._release(*piece)
        call.ran(jobs[0].submitted, min(j.began for j in jobs), max(j.ended for j in jobs), jobs[0].batch_rows)
        return [glue([outputs[job] for job, _ in one]) for one in cuts]

    async def _outputs(self, job: Job, future: asyncio.Future[Tensors], call: Call) -> Tensors:
        try:
            outputs = await future
        except BaseException:
            self._release(job, future)
            raise
        call.ran(job.submitted, job.began, job.ended, job.batch_rows)
        return outputs

    def put(self, tensors: Tensors, rows: int, waiter: Waiter, call: Call) -> Job:
        """Queue the tensors of one request for somebody who is called back.

        rows  of the tensors, at most the policy's `max_rows`
        Raises ApiError as `submit` does before anything ran; what happens later is told to the waiter.
        """
        job = Job(tensors, rows, waiter)
        self._enqueue((job,), rows, call)
        return job

    def withdraw(self, job: Job) -> None:
        """Nobody waits for a job any more: forget it if it has not begun. Its waiter has to be `done`."""
        if job.queued:
            self._leave_queue(job)
            job.tensors = {}  # a dropped job may stay in the deque for a while; its data need not

    async def close(self) -> None:
        """Refuse new work, finish what was accepted, stop the thread."""
        self._closed = True
        await self._idle.wait()
        self._thread.stop()

    def _enqueue(self, jobs: Sequence[Job], rows: int, call: Call) -> None:
        if self._closed:
            raise ApiError("shutting_down", "the server is draining", hint="retry; another replica will answer")
        if self._waiting_rows + rows > self.policy.max_queue_rows:
            raise self._full()
        self.circuit.check()
        loop = asyncio.get_running_loop()
        if call.deadline is not None:
            for job in jobs:
                job.deadline = call.deadline
            self._deadlines.watch(call.deadline, loop)
        (self._interactive if call.interactive else self._patient).extend(jobs)
        self._idle.clear()
        self._count(rows)
        self._schedule(loop)

    def _full(self) -> ApiError:
        wait_ms = math.ceil(min(30.0, max(0.05, self._waiting_rows / self._rows_per_second)) * 1000)
        return ApiError(
            "queue_full",
            f"{self._waiting_rows} rows are waiting, the limit is {self.policy.max_queue_rows}",
            hint=f"retry after {wait_ms} ms",
            retry_after_ms=wait_ms,
        )

    def _unanswered(self) -> Iterator[Job]:
        return (job for job in chain(self._interactive, self._patient, *self._handed) if not job.waiter.done())

    def _release(self, job: Job, future: asyncio.Future[Tensors]) -> None:
        if not future.done():
            future.cancel()
        elif not future.cancelled():
            future.exception()  # seen: a sibling piece's failure was reported already
        self.withdraw(job)

    def _leave_queue(self, job: Job) -> None:
        if job.queued:
            job.queued = False
            self._count(-job.rows)

    @property
    def _waiting_rows(self) -> int:
        return self._queued_rows + self._ahead_rows

    def _count(self, rows: int) -> None:
        self._queued_rows += rows
        self._observer.queue(self._waiting_rows)

    def _count_ahead(self) -> None:
        self._ahead_rows = sum(job.rows for batch in list(self._handed)[1:] for job in batch)
        self._observer.queue(self._waiting_rows)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a batch: now if it is large, in this pass of the loop, or after a wait if the last one had company."""
        jobs, rows = self._last_batch
        if self._queued_rows >= self.policy.max_rows / 2 > 1 and not self._patient:
            if len(self._handed) < self.ahead:
                self._start()
        elif self._handed or self._starting:
            pass  # jobs gather
        elif jobs > 1 and self.policy.max_delay_ms > 0 and self._queued_rows < rows:
            if self._wait is None:
                self._wait = loop.call_later(self.policy.max_delay_ms / 1000, self._start_idle)
        else:
            self._starting = True
            loop.call_soon(self._start_idle)

    def _start_idle(self) -> None:
        """What was scheduled, unless a batch was started meanwhile."""
        self._forget_wait()
        if not self._handed:
            self._start()

    def _forget_wait(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
        self._wait, self._starting = None, False

    def _start(self) -> None:
        self._forget_wait()
        batch = self._take()
        if batch:
            self._handed.append(batch)
            self._count_ahead()
            self._thread.run(self._execute, batch, asyncio.get_running_loop(), self._finish)
        elif not self._handed:
            self._idle.set()

    def _take(self) -> list[Job]:
        """The first live job in turn and its compatible mates; the others keep their order."""
        batch: list[Job] = []
        room = self.policy.max_rows
        for queue in self._in_turn():
            if not batch:
                self._reorder(queue)
            room = self._take_from(queue, batch, room)
        if batch:
            self._last_batch = (len(batch), sum(job.rows for job in batch))
        return batch

    def _room(self, lead: Job) -> int:
        """Rows a batch may have that this job leads; a family may count something else than rows."""
        return self.policy.max_rows

    def _reorder(self, queue: deque[Job]) -> None:
        """Choose who leads the next batch by bringing it to the front; a family may have an order of its own."""

    def _in_turn(self) -> tuple[deque[Job], deque[Job]]:
        overdue = bool(self._patient) and perf_counter() - self._patient[0].submitted > PATIENCE_S
        return (self._patient, self._interactive) if overdue else (self._interactive, self._patient)

    def _take_from(self, queue: deque[Job], batch: list[Job], room: int) -> int:
        later: list[Job] = []
        while queue and room > 0:
            job = queue.popleft()
            if job.waiter.done():  # expired or cancelled
                self._leave_queue(job)
            elif not batch or (job.key == batch[0].key and job.rows <= room):
                room = (room if batch else self._room(job)) - job.rows
                batch.append(job)
                self._leave_queue(job)
            else:
                later.append(job)
        queue.extendleft(reversed(later))
        return room

    def _execute(self, batch: list[Job]) -> list[Outcome]:
        """In the model's thread: one outcome a job."""
        began = perf_counter()
        try:
            outputs = self._run(join(batch))
            outcomes: list[Outcome] = split(outputs, batch)
        except Exception as fault:
            if len(batch) > 1:
                half = len(batch) // 2
                return self._execute(batch[:half]) + self._execute(batch[half:])
            log.exception("the model failed on a request of %d rows", batch[0].rows)
            fault.__traceback__ = None  # the frames hold the request's tensors
            outcomes = [fault]
        ended, rows = perf_counter(), sum(j.rows for j in batch)
        for job in batch:
            job.began, job.ended, job.batch_rows = began, ended, rows
        return outcomes

    def _finish(self, batch: list[Job], outcomes: list[Outcome]) -> None:
        self._handed.popleft()
        self._count_ahead()
        self._measure(batch)
        if self._interactive or self._patient:
            self._schedule(asyncio.get_running_loop())
        for job, outcome in zip(batch, outcomes, strict=True):
            self._settle(job, outcome)
        if not (self._handed or self._interactive or self._patient):
            self._idle.set()

    def _settle(self, job: Job, outcome: Outcome) -> None:
        failed = isinstance(outcome, BaseException)
        if failed or self.circuit.troubled:
            self._note(self.circuit.failed if failed else self.circuit.succeeded)
        if not job.waiter.done():
            job.settle(_failure(outcome) if isinstance(outcome, BaseException) else outcome)

    def _note(self, happened: Callable[[], None]) -> None:
        was_open = self.circuit.is_open
        happened()
        if self.circuit.is_open != was_open:
            self._observer.circuit(self.circuit.is_open)

    def _measure(self, batch: list[Job]) -> None:
        rows = sum(job.rows for job in batch)
        seconds = max(batch[-1].ended - batch[0].began, 1e-6)
        self._rows_per_second += 0.2 * (rows / seconds - self._rows_per_second)
        self._observer.batch(rows)


def _failure(fault: BaseException) -> BaseException:
    if isinstance(fault, ApiError):
        return fault
    return ApiError(
        "inference_failed", "the model failed on this request", hint="report the request id to the operator"
    )
