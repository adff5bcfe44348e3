"""Callers of a forecast service that never stop asking, and keep what they did not get."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import etth1
import httpx
import numpy as np
from pressroom_client import Client, History, Retry, Timeout

Forecast = Callable[[], np.ndarray]
PATIENCE = Timeout(total=60, connect=1, read=5)
RETRIES = Retry(count=50, longest_pause=0.5)


@dataclass(eq=False)
class Caller(threading.Thread):
    """Asks again and again, with a pause of so many seconds between; a wrong or lost answer is kept."""

    ask: Callable[[], Any]
    expected: Any
    pause: float = 0.0
    answers: int = 0
    faults: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(name="caller", daemon=True)

    def run(self) -> None:
        while not self._ended.wait(self.pause):
            try:
                if not np.allclose(self.ask(), self.expected, rtol=1e-4, atol=1e-3):
                    self.faults.append("another forecast")
            except Exception as fault:
                self.faults.append(repr(fault))
            self.answers += 1

    def stop(self) -> None:
        self._ended.set()
        self.join(90)


@contextmanager
def by_client(url: str, **options: Any) -> Iterator[Forecast]:
    """One forecast after another through a client that tries again."""
    series = etth1.series()
    history = History(values=series["values"], timestamps=series["timestamps"])
    with Client(url, **{"timeout": PATIENCE, "retries": RETRIES, **options}) as client:

        def ask() -> np.ndarray:
            (forecast,) = client.forecast(history, model=etth1.CARD)
            return np.array(list(forecast.values.values())).T

        yield ask


def by_new_connections(url: str, key: str) -> Forecast:
    """One forecast after another, each over a connection of its own, and nothing is tried again."""
    body = etth1.request(model=etth1.CARD)
    headers = {"Authorization": f"Bearer {key}"}

    def ask() -> np.ndarray:
        answer = httpx.post(url + etth1.FORECAST, json=body, headers=headers, timeout=30, trust_env=False)
        return etth1.forecast_of(answer.raise_for_status().json()["series"][0])

    return ask
