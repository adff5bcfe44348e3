"""Adaptive batching: requests that can share a forward pass do, and none pays for another's fault.

A job is the tensors of one request, rows first. While a batch runs, jobs gather; when it ends, the oldest job's
compatible mates (same bucket: equal shapes beyond the first axis, equal dtypes and names) leave together, up to
`max_rows`. An idle model starts at once unless company has been coming: only then does it wait, at most
`max_delay_ms`, for as many rows as the last batch had.

- A request of more than `max_rows` rows is cut into pieces that queue like everyone else's.
- A batch that raises is retried by halves, so that only the guilty job fails.
- Expired and cancelled jobs are dropped before they run. A full queue refuses at once, with the time to come back.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np

from services.core.call import Call
from services.core.errors import ApiError
from services.core.tensors import Tensors

log = logging.getLogger("pressroom.batcher")

Outcome = Tensors | BaseException


@dataclass(frozen=True, kw_only=True)
class BatchPolicy:
    """How requests of one model are joined.

    max_rows        rows in one forward pass, >= 1; 1 switches batching off
    max_delay_ms    longest wait for company, >= 0; 0 = never wait
    max_queue_rows  rows that may wait; beyond this: 429 / RESOURCE_EXHAUSTED
    """

    max_rows: int = 64
    max_delay_ms: float = 2.0
    max_queue_rows: int = 2048


class BatchObserver(Protocol):
    """What the batcher reports; the metrics implement it."""

    def queue(self, rows: int) -> None: ...
    def batch(self, rows: int) -> None: ...


class Job:
    """Tensors of one request (or one piece of it) and the future of its outcome."""

    __slots__ = ("batch_rows", "began", "ended", "future", "key", "queued", "rows", "submitted", "tensors", "timer")

    def __init__(self, tensors: Tensors, rows: int, future: asyncio.Future[Tensors]) -> None:
        self.tensors = tensors
        self.rows = rows
        self.key = tuple((name, t.dtype.char, t.shape[1:]) for name, t in tensors.items())
        self.future = future
        self.timer: asyncio.TimerHandle | None = None
        self.queued = True
        self.batch_rows = 0
        self.submitted = self.began = self.ended = perf_counter()


class Batcher:
    """The queue of one model. Lives in the event loop; `run` is called in its own thread.

    run  maps named tensors [rows, ...] to named tensors [rows, ...]; may raise
    """

    def __init__(self, run: Callable[[Tensors], Tensors], policy: BatchPolicy, observer: BatchObserver) -> None:
        self.policy = policy
        self._run = run
        self._observer = observer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._jobs: deque[Job] = deque()
        self._queued_rows = 0
        self._running = False
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
        Raises ApiError: queue_full, shutting_down, deadline_exceeded, inference_failed.
        Cancelling the caller drops what has not begun.
        """
        pieces = [self._cut(tensors) for tensors in items]
        jobs = [job for piece in pieces for job in piece]
        self._enqueue(jobs, call)
        try:
            outputs = {job: await job.future for job in jobs}
        finally:
            for job in jobs:
                self._release(job)
        call.ran(jobs[0].submitted, min(j.began for j in jobs), max(j.ended for j in jobs), jobs[0].batch_rows)
        return [_glue([outputs[job] for job in piece]) for piece in pieces]

    async def close(self) -> None:
        """Refuse new work, finish what was accepted, stop the thread."""
        self._closed = True
        await self._idle.wait()
        self._thread.shutdown(wait=False)

    def _cut(self, tensors: Tensors) -> list[Job]:
        rows, step = len(next(iter(tensors.values()))), self.policy.max_rows
        future = asyncio.get_running_loop().create_future
        if rows <= step:
            return [Job(tensors, rows, future())]
        starts = range(0, rows, step)
        return [Job({n: t[i : i + step] for n, t in tensors.items()}, min(step, rows - i), future()) for i in starts]

    def _enqueue(self, jobs: list[Job], call: Call) -> None:
        rows = sum(job.rows for job in jobs)
        if self._closed:
            raise ApiError("shutting_down", "the server is draining", hint="retry; another replica will answer")
        if self._queued_rows + rows > self.policy.max_queue_rows:
            raise self._full()
        loop = asyncio.get_running_loop()
        if call.deadline is not None:
            until = loop.time() + call.deadline - perf_counter()
            for job in jobs:
                job.timer = loop.call_at(until, _expire, job)
        self._jobs.extend(jobs)
        self._idle.clear()
        self._count(rows)
        if not self._running:
            self._schedule(loop)

    def _full(self) -> ApiError:
        wait_ms = math.ceil(min(30.0, max(0.05, self._queued_rows / self._rows_per_second)) * 1000)
        return ApiError(
            "queue_full",
            f"{self._queued_rows} rows are waiting, the limit is {self.policy.max_queue_rows}",
            hint=f"retry after {wait_ms} ms",
            retry_after_ms=wait_ms,
        )

    def _release(self, job: Job) -> None:
        if job.timer is not None:
            job.timer.cancel()
        if not job.future.done():
            job.future.cancel()
        elif not job.future.cancelled():
            job.future.exception()  # seen: a sibling piece's failure was reported already
        self._leave_queue(job)
        job.tensors = {}  # a dropped job may stay in the deque for a while; its data need not

    def _leave_queue(self, job: Job) -> None:
        if job.queued:
            job.queued = False
            self._count(-job.rows)

    def _count(self, rows: int) -> None:
        self._queued_rows += rows
        self._observer.queue(self._queued_rows)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a batch: in this pass of the loop, or after a wait if the last batches had company."""
        if self._starting:
            return
        jobs, rows = self._last_batch
        if jobs > 1 and self.policy.max_delay_ms > 0 and self._queued_rows < rows:
            if self._wait is None:
                self._wait = loop.call_later(self.policy.max_delay_ms / 1000, self._start)
            return
        self._starting = True
        loop.call_soon(self._start)

    def _start(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
        self._wait, self._starting = None, False
        if self._running:
            return
        batch = self._take()
        if not batch:
            self._idle.set()
            return
        self._running = True
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, self._execute, batch).add_done_callback(lambda f: self._finish(batch, f))

    def _take(self) -> list[Job]:
        """The oldest live job and its compatible mates; the others keep their order."""
        batch: list[Job] = []
        later: list[Job] = []
        rows = 0
        while self._jobs and rows < self.policy.max_rows:
            job = self._jobs.popleft()
            if job.future.done():  # expired or cancelled
                self._leave_queue(job)
            elif not batch or (job.key == batch[0].key and rows + job.rows <= self.policy.max_rows):
                batch.append(job)
                rows += job.rows
                self._leave_queue(job)
            else:
                later.append(job)
        self._jobs.extendleft(reversed(later))
        if batch:
            self._last_batch = (len(batch), rows)
        return batch

    def _execute(self, batch: list[Job]) -> list[Outcome]:
        """In the model's thread: one outcome a job."""
        began = perf_counter()
        try:
            outputs = self._run(_join(batch))
            outcomes: list[Outcome] = _split(outputs, batch)
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

    def _finish(self, batch: list[Job], done: asyncio.Future[list[Outcome]]) -> None:
        self._running = False
        for job, outcome in zip(batch, done.result(), strict=True):
            if job.future.done():
                continue
            if isinstance(outcome, BaseException):
                job.future.set_exception(_failure(outcome))
            else:
                job.future.set_result(outcome)
        self._measure(batch)
        if self._jobs:
            self._schedule(asyncio.get_running_loop())
        else:
            self._idle.set()

    def _measure(self, batch: list[Job]) -> None:
        rows = sum(job.rows for job in batch)
        seconds = max(batch[-1].ended - batch[0].began, 1e-6)
        self._rows_per_second += 0.2 * (rows / seconds - self._rows_per_second)
        self._observer.batch(rows)


def _glue(pieces: list[Tensors]) -> Tensors:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _join(batch: list[Job]) -> Tensors:
    if len(batch) == 1:
        return batch[0].tensors
    return {name: np.concatenate([job.tensors[name] for job in batch]) for name in batch[0].tensors}


def _split(outputs: Tensors, batch: list[Job]) -> list[Outcome]:
    pieces: list[Outcome] = []
    row = 0
    for job in batch:
        pieces.append({name: t[row : row + job.rows] for name, t in outputs.items()})
        row += job.rows
    return pieces


def _failure(fault: BaseException) -> BaseException:
    if isinstance(fault, ApiError):
        return fault
    return ApiError(
        "inference_failed", "the model failed on this request", hint="report the request id to the operator"
    )


def _expire(job: Job) -> None:
    if not job.future.done():
        job.future.set_exception(ApiError("deadline_exceeded", "the deadline passed before the model answered"))
