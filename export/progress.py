"""How long steps report themselves: a callback the command line turns into bars and everyone else may ignore."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """Called when a step begins and while it moves: step in words, units done, units in all."""

    def __call__(self, step: str, done: int, total: int) -> None: ...


def silent(step: str, done: int, total: int) -> None:
    """Report nothing."""
