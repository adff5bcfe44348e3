"""What the engine reports, for metrics: a few calls a step, none a token. All come from the event loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Load:
    """How full the engine is at one moment.

    waiting      sequences in the queue
    running      sequences that hold a slot, in prefill or decoding
    slots        slots there are
    kv_reserved  tokens reserved by running sequences, of kv_tokens
    kv_tokens    tokens there is room for
    prefix_held  tokens kept for prompts that begin alike
    """

    waiting: int
    running: int
    slots: int
    kv_reserved: int
    kv_tokens: int
    prefix_held: int


class EngineObserver(Protocol):
    """Metrics implement this."""

    def load(self, load: Load) -> None:
        """After every step, and when sequences come or go."""

    def step(self, prompt_tokens: int, tokens: int, intervals: Sequence[float], first: Sequence[float]) -> None:
        """One step is over.

        prompt_tokens  worked on in it (prefill, without cached ones)
        tokens         handed out, all sequences together
        intervals      seconds since the same sequence's token before, one for every token but a sequence's first
        first          seconds from submission to the first token, one for every sequence that had its first
        """

    def prefix(self, prompt_tokens: int, cached_tokens: int) -> None:
        """A prompt was begun: its tokens, and how many of them the prefix cache had."""

    def finished(self, outcome: str) -> None:
        """A sequence ended: "stop", "length", "cancelled", or an error code."""

    def circuit(self, is_open: bool) -> None:
        """The circuit opened or closed."""


class Unobserved:
    """An observer that looks away."""

    def load(self, load: Load) -> None: ...

    def step(self, prompt_tokens: int, tokens: int, intervals: Sequence[float], first: Sequence[float]) -> None: ...

    def prefix(self, prompt_tokens: int, cached_tokens: int) -> None: ...

    def finished(self, outcome: str) -> None: ...

    def circuit(self, is_open: bool) -> None: ...
