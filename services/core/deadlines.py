"""Deadlines of waiting jobs, kept by one timer: at thousands of requests a second, one a job is work of its own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from time import perf_counter
from weakref import WeakMethod

from services.core.errors import ApiError
from services.core.job import Job


class Deadlines:
    """Answers jobs whose deadline passes.

    unanswered  a batcher's method that names its jobs, queued or running; held weakly, because a retired model must
                not stay in memory until the deadline of its last request
    """

    def __init__(self, unanswered: Callable[[], Iterable[Job]]) -> None:
        self._unanswered = WeakMethod(unanswered)
        self._timer: asyncio.TimerHandle | None = None
        self._next = math.inf  # perf_counter seconds

    def watch(self, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that jobs of this deadline (perf_counter seconds) are answered by then."""
        if deadline >= self._next:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._next = deadline
        self._timer = loop.call_at(loop.time() + deadline - perf_counter(), self._passed)

    def _passed(self) -> None:
        self._timer, self._next = None, math.inf
        unanswered = self._unanswered()
        if unanswered is None:
            return
        now, following = perf_counter(), math.inf
        for job in list(unanswered()):
            if job.deadline <= now:
                job.settle(ApiError("deadline_exceeded", "the deadline passed before the model answered"))
            else:
                following = min(following, job.deadline)
        if following < math.inf:
            self.watch(following, asyncio.get_running_loop())
