"""What the engine needs of a network: a cache with slots, a chunk of one prompt, a step of many sequences.

N slots; slot s holds keys and values of one sequence's tokens 0 .. length-1. Running sequences are kept in slots
0 .. n-1 without holes, so that a step costs what n rows cost; who runs is the engine's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from services.generation.request import Logits

Cached = Any  # an array or tensor [parts, kv_heads, tokens, head_dim]: keys and values of all layers, a copy


class Backend(Protocol):
    """One network with its cache. Used from one thread.

    slots          N
    capacity       tokens a slot has room for
    vocabulary     entries of a row of logits
    token_bytes    memory of one cached token
    """

    slots: int
    capacity: int
    vocabulary: int
    token_bytes: int

    def prefill(self, slot: int, start: int, tokens: Sequence[int], every: bool) -> Logits:
        """Add tokens after the `start` tokens a slot holds.

        Logits float32 [len(tokens), vocabulary] if `every`, else those after the last token, [1, vocabulary].
        They are overwritten by the next call.
        """

    def decode(self, first: int, tokens: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Logits:
        """One token for each of slots first .. first+n-1: tokens [n], and how many each slot holds already [n].

        Logits float32 [n, vocabulary], which the caller may change; overwritten by the next call.
        """

    def move(self, source: int, target: int, tokens: int) -> None:
        """Copy the first `tokens` tokens of one slot over another's."""

    def swap(self, one: int, other: int, tokens: int) -> None:
        """Exchange the first `tokens` tokens of two slots."""

    def share(self, source: int, target: int, start: int, stop: int) -> None:
        """Copy tokens start .. stop-1 of one slot into another that holds `start` tokens."""

    def read(self, slot: int, start: int, stop: int) -> Cached:
        """A copy of what a slot holds for tokens start .. stop-1."""

    def write(self, slot: int, start: int, cached: Cached) -> None:
        """Put a copy (or the beginning of one) back, as the tokens from `start` on."""

    def release(self, slot: int) -> None:
        """Nobody needs what a slot holds."""

    def close(self) -> None:
        """Give memory back."""
