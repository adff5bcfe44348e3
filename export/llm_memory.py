"""The most memory a block held at once: this process and its children, sampled.

The peak the system records for a process is that of its whole life, which says nothing about one export among several.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Self

import psutil

EVERY = 0.05  # seconds


class PeakMemory:
    """`with PeakMemory() as memory: ...`, then `memory.peak_bytes`: resident bytes, shared pages counted once each."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._watch.join()

    def _look(self) -> None:
        own = psutil.Process()
        while True:
            held = 0
            for process in (own, *own.children(recursive=True)):
                with contextlib.suppress(psutil.Error):  # gone meanwhile
                    held += process.memory_info().rss
            self.peak_bytes = max(self.peak_bytes, held)
            if self._done.wait(EVERY):
                return
