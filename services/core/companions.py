"""Whether other workers of this server serve already.

A worker that joins them (the second at start, or a crashed one's successor) loads its models before it listens: the
workers share one port, and a caller the kernel gave to a worker that is still loading would be refused for nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

_FILE = "serving"


class Companions:
    """A mark in the directory the workers share. workers: how many the server has; one has no companions."""

    def __init__(self, workers: int) -> None:
        directory = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        self._mark = Path(directory) / _FILE if directory and workers > 1 else None

    @property
    def serving(self) -> bool:
        """Whether any of them has been ready."""
        return self._mark is not None and self._mark.exists()

    def announce(self) -> None:
        """This worker is ready."""
        if self._mark is not None:
            self._mark.touch()
