"""The thread of one model: batches go in, outcomes come back to the event loop, one hand-over each way.

An executor would make a future for each batch and chain it to another one in the loop: half of what a lone request
costs. Like an executor's, the thread ends when nobody holds the object any more, and keeps nothing alive meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

B = TypeVar("B")
R = TypeVar("R")


class ModelThread:
    """Runs one piece of work after another."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Any] = SimpleQueue()
        self._started = False
        self._stop = weakref.finalize(self, self._work.put, None)

    def run(
        self, work: Callable[[B], R], batch: B, loop: asyncio.AbstractEventLoop, finish: Callable[[B, R], object]
    ) -> None:
        """Call `work(batch)` in the thread, then `finish(batch, outcome)` in the loop. `work` does not raise."""
        if not self._started:
            self._started = True
            Thread(target=_serve, args=(self._work,), name="model", daemon=True).start()
        self._work.put((work, batch, loop, finish))

    def stop(self) -> None:
        """End the thread after what it was given."""
        self._stop()


def _serve(queue: SimpleQueue[Any]) -> None:
    while (given := queue.get()) is not None:
        work, batch, loop, finish = given
        outcome = work(batch)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(finish, batch, outcome)
        del given, work, batch, loop, finish, outcome  # the wait for the next may be long
