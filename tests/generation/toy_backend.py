"""A network without arithmetic: the next token's logits are drawn from a hash of everything the cache holds.

So an answer is right only if every token of the sequence lies where it belongs, whoever else was running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Semaphore
from typing import Any

import numpy as np
import numpy.typing as npt

VOCABULARY = 320


def toy_logits(tokens: Sequence[int]) -> npt.NDArray[np.float32]:
    """float32 [V] after these tokens. Ids below 3 (the special ones) are unlikely."""
    state = 0
    for token in tokens:
        state = (state * 1_000_003 + int(token) + 1) % 2**61
    logits = np.random.default_rng(state).standard_normal(VOCABULARY).astype(np.float32)
    logits[:3] -= 100
    return logits


def toy_answer(prompt: Sequence[int], count: int) -> list[int]:
    """The greedy continuation."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(toy_logits(tokens).argmax()))
    return tokens[len(prompt) :]


class ToyBackend:
    """See `services.generation.backend.Backend`.

    before_step  called before every call of the network with the tokens of each row; may raise
    gate         if given, every step (not prefill) waits for a release
    ready        the network waits for it; clear it to let requests gather
    """

    def __init__(self, slots: int = 8, capacity: int = 256) -> None:
        self.slots, self.capacity, self.vocabulary, self.token_bytes = slots, capacity, VOCABULARY, 8
        self.cache = np.full((1, slots, 1, capacity, 1), -1, np.int64)
        self.before_step: Callable[[list[list[int]]], None] = lambda rows: None
        self.gate: Semaphore | None = None
        self.ready = Event()
        self.ready.set()
        self.steps: list[int] = []  # rows of every decoding step
        self.computed = 0  # prompt tokens
        self.moves = 0
        self.closed = False

    def prefill(self, slot: int, start: int, tokens: Sequence[int], every: bool) -> npt.NDArray[np.float32]:
        self.ready.wait()
        held = [*self._held(slot, start), *tokens]
        self.before_step([held])
        self.computed += len(tokens)
        self.cache[0, slot, 0, start : len(held), 0] = tokens
        ends = range(start + 1, len(held) + 1) if every else [len(held)]
        return np.stack([toy_logits(held[:end]) for end in ends])

    def decode(
        self, first: int, tokens: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        if self.gate is not None:
            self.gate.acquire()
        rows = [
            [*self._held(first + row, int(length)), int(token)]
            for row, (token, length) in enumerate(zip(tokens, lengths, strict=True))
        ]
        self.before_step(rows)
        self.steps.append(len(rows))
        self.cache[0, np.arange(first, first + len(rows)), 0, lengths, 0] = tokens
        return np.stack([toy_logits(row) for row in rows])

    def move(self, source: int, target: int, tokens: int) -> None:
        self.moves += 1
        self.cache[:, target, :, :tokens] = self.cache[:, source, :, :tokens]

    def swap(self, one: int, other: int, tokens: int) -> None:
        both = self.cache[:, [other, one], :, :tokens].copy()
        self.cache[:, [one, other], :, :tokens] = both

    def share(self, source: int, target: int, start: int, stop: int) -> None:
        self.cache[:, target, :, start:stop] = self.cache[:, source, :, start:stop]

    def read(self, slot: int, start: int, stop: int) -> Any:
        return self.cache[:, slot, :, start:stop].copy()

    def write(self, slot: int, start: int, cached: Any) -> None:
        self.cache[:, slot, :, start : start + cached.shape[2]] = cached

    def release(self, slot: int) -> None:
        self.cache[:, slot] = -1

    def close(self) -> None:
        self.closed = True

    def _held(self, slot: int, length: int) -> list[int]:
        held: list[int] = self.cache[0, slot, 0, :length, 0].tolist()
        assert -1 not in held, "reads tokens that were never written"
        return held
