"""Everybody who wants to hear what one engine reports: it may work for several served models."""

from __future__ import annotations

from collections.abc import Sequence

from services.generation.observer import EngineObserver, Load


class Audience:
    """An observer that passes on what it hears. Listeners come and go between reports, in any thread."""

    def __init__(self) -> None:
        self._listeners: tuple[EngineObserver, ...] = ()

    def join(self, observer: EngineObserver) -> None:
        self._listeners = (*self._listeners, observer)

    def leave(self, observer: EngineObserver) -> None:
        self._listeners = tuple(one for one in self._listeners if one is not observer)

    def load(self, load: Load) -> None:
        for one in self._listeners:
            one.load(load)

    def step(self, prompt_tokens: int, tokens: int, intervals: Sequence[float], first: Sequence[float]) -> None:
        for one in self._listeners:
            one.step(prompt_tokens, tokens, intervals, first)

    def prefix(self, prompt_tokens: int, cached_tokens: int) -> None:
        for one in self._listeners:
            one.prefix(prompt_tokens, cached_tokens)

    def finished(self, outcome: str) -> None:
        for one in self._listeners:
            one.finished(outcome)

    def circuit(self, is_open: bool) -> None:
        for one in self._listeners:
            one.circuit(is_open)
