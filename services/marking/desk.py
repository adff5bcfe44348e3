"""Where texts are read: one thread, a bounded queue, and so many texts a minute for each caller.

Reading takes seconds of a processor for a long text, and whoever may read without limit can try out what removes or
forges a mark; hence both bounds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, perf_counter
from typing import Generic, TypeVar

from services.core.call import Call
from services.core.errors import ApiError
from services.core.gate import Window
from services.core.metrics import ModelMetrics

T = TypeVar("T")
MINUTE = 60.0


class Desk:
    """Runs readings one after the other. Lives in the event loop.

    most        readings that may wait, >= 1
    per_minute  readings of one caller (API key; all callers without one count as one), 0: any number
    """

    def __init__(self, most: int, per_minute: int, metrics: ModelMetrics) -> None:
        self._most, self._per_minute, self._metrics = most, per_minute, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watermark")
        self._windows: dict[str | None, Window] = {}
        self._waiting = 0
        self._seconds = 0.5  # of a reading, lately
        self._closed = False

    def take(self, texts: int, call: Call) -> None:
        """Count texts against the caller's limit. Raises ApiError (rate_limited) if they do not fit any more."""
        if not self._per_minute or call.protocol == "none":
            return
        window = self._windows.setdefault(call.key_id, Window(self._per_minute, MINUTE))
        now = monotonic()
        for _ in range(texts):
            wait = window.take(now)
            if wait is not None:
                raise ApiError(
                    "rate_limited",
                    f"{self._per_minute} texts were read for this caller within a minute",
                    hint=f"retry after {math.ceil(wait)} s",
                    retry_after_ms=math.ceil(wait * 1000),
                )

    async def read(self, readings: list[Callable[[], T]], call: Call) -> list[T]:
        """The outcomes of readings, in order; tells the call its times.

        Raises ApiError: queue_full, shutting_down, deadline_exceeded; cancelling drops what has not begun.
        """
        if self._closed:
            raise ApiError("shutting_down", "the server is draining", hint="retry; another replica will answer")
        if self._waiting + len(readings) > self._most:
            raise self._full()
        loop, submitted = asyncio.get_running_loop(), perf_counter()
        timed = [_Timed(reading, call.deadline) for reading in readings]
        self._count(len(timed))
        tasks = [loop.run_in_executor(self._thread, one) for one in timed]
        try:
            found = list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            self._count(-len(timed))
        self._seconds += 0.2 * ((timed[-1].ended - timed[0].began) / len(timed) - self._seconds)
        call.ran(submitted, timed[0].began, timed[-1].ended, len(timed))
        return found

    async def close(self) -> None:
        """Refuse new work, finish what was accepted, stop the thread."""
        self._closed = True
        await asyncio.to_thread(self._thread.shutdown)

    def _count(self, change: int) -> None:
        self._waiting += change
        self._metrics.queue(self._waiting)

    def _full(self) -> ApiError:
        wait_ms = math.ceil(min(30.0, max(0.05, self._waiting * self._seconds)) * 1000)
        return ApiError(
            "queue_full",
            f"{self._waiting} texts are waiting to be read, the limit is {self._most}",
            hint=f"retry after {wait_ms} ms, or send fewer texts",
            retry_after_ms=wait_ms,
        )


class _Timed(Generic[T]):
    """A reading with the times it began and ended."""

    def __init__(self, reading: Callable[[], T], deadline: float | None) -> None:
        self._reading, self._deadline = reading, deadline
        self.began = self.ended = perf_counter()

    def __call__(self) -> T:
        self.began = perf_counter()
        if self._deadline is not None and self.began > self._deadline:
            raise ApiError("deadline_exceeded", "the deadline passed before the text was read")
        found = self._reading()
        self.ended = perf_counter()
        return found
