"""What a detector needs to know about a text, whoever tells it: the served language model, or an endpoint elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol, TypeVar

from models.dna_gpt.parts import Parts
from models.dna_gpt.reading import Reading
from services.core.call import Call

T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What came back. failures: by reason, regenerations that did not come."""

    reading: Reading
    failures: Counter[str] = field(default_factory=Counter)


class Work:
    """When the work for one request was queued, begun and over; many things are noted, the call hears of them once."""

    def __init__(self) -> None:
        self._submitted = self._began = float("inf")
        self._ended = 0.0
        self._rows = 0

    def note(self, submitted: float, began: float, ended: float, rows: int) -> None:
        """`time.perf_counter()` of one piece of work, and how many sequences shared its steps."""
        self._submitted, self._began = min(self._submitted, submitted), min(self._began, began)
        self._ended, self._rows = max(self._ended, ended), max(self._rows, rows)

    def finish(self, call: Call) -> None:
        """Tell the call, unless nothing had to be asked."""
        if self._rows:
            self._ended = min(self._ended, perf_counter())
            self._began = max(self._submitted, min(self._began, self._ended))
            call.ran(self._submitted, self._began, self._ended, self._rows)


class Asker(Protocol):
    """Answers questions about texts. upstream: the model behind an endpoint, "" for the served one."""

    upstream: str

    async def ask(self, parts: Parts, regenerations: int, call: Call, work: Work) -> Asked:
        """Raises ApiError where nothing can be told."""

    async def close(self) -> None:
        """Finish what was asked, and stop."""


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of it at once; where one fails the others are cancelled."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
