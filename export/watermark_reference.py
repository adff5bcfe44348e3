"""Balance-Marking a second time, in whole numbers and one token at a time: what the decoder's counts are checked by.

Shares nothing with `models.balance_marking` but the proxy's arrays: CPython's own tuple hash, unbounded integers that
are wrapped by hand, probabilities as multiples of 2^-40.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

WORD, TOP = 1 << 64, 1 << 63
GRAIN, HALF = 1 << 40, 1 << 39
HASHED_BITS = 32


class Reference:
    """Counts available tokens of a text. See MarkingScheme for what the settings mean."""

    def __init__(self, settings: Mapping[str, Any], key: int, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._key, self._vocabulary = key, int(settings["vocabulary"])
        self._bits, self._permutations = int(settings["message_bits"]), int(settings["permutations"])
        self._window, self._hashed = int(settings["window"]), int(settings["hash_window"])
        self._segment = int(self._bits * settings["tokens_per_bit"] + 1e-9)
        self._starts, self._followers = arrays["starts"].tolist(), arrays["followers"].tolist()
        self._counts = arrays["counts"].tolist()
        frequent, frequency = arrays["frequent"].tolist(), arrays["frequency"].tolist()
        whole = float(sum(frequency))
        self._overall = {token: number / whole for token, number in zip(frequent, frequency, strict=True)}
        self._guesses: dict[int, list[tuple[int, int]]] = {}

    def count(self, ids: Sequence[int], segments: int, segment: int, message: int) -> int:
        """Positions of a segment whose token was available to a message; a pair of neighbours counts once."""
        seen: set[tuple[int, ...]] = set()
        found = 0
        for position in range(self._window, len(ids)):
            if (position - self._window) // self._segment % segments != segment:
                continue
            pair = tuple(ids[position - self._hashed : position + 1])
            if pair not in seen:
                seen.add(pair)
                found += self.available(ids[:position], message, ids[position])
        return found

    def available(self, before: Sequence[int], message: int, token: int) -> bool:
        """Whether the proxy's probability along the message's permutation has reached the half at a token."""
        seed = hash((*before[-self._hashed :], self._key))
        base = seed % (1 << (HASHED_BITS - self._bits)) << self._bits
        index = _mix(base + message) % self._permutations
        permutation = _mix(_signed(seed * self._permutations + index))
        own = self._rank(permutation, token)
        reached = sum(weight for other, weight in self._guess(before[-1]) if self._rank(permutation, other) <= own)
        return reached >= HALF

    def _rank(self, permutation: int, token: int) -> int:
        return _mix(_signed(permutation * self._vocabulary + token))

    def _guess(self, last: int) -> list[tuple[int, int]]:
        """(token, probability in grains): followers of a token, then the frequent ones for the rest."""
        if last not in self._guesses:
            followers = range(self._starts[last], self._starts[last + 1])
            different = float(len(followers))
            whole = float(sum(self._counts[at] for at in followers)) + different
            pairs = [(self._followers[at], self._counts[at] / whole) for at in followers]
            rest = different / whole if different else 1.0
            pairs += [(token, rest * share) for token, share in self._overall.items()]
            self._guesses[last] = [(token, round(share * GRAIN)) for token, share in pairs]
        return self._guesses[last]


def _signed(value: int) -> int:
    return (value + TOP) % WORD - TOP


def _mix(key: int) -> int:
    """Thomas Wang's 64-bit mix on signed integers."""
    key = _signed(~key + (key << 21))
    key ^= key >> 24
    key = _signed(key + (key << 3) + (key << 8))
    key ^= key >> 14
    key = _signed(key + (key << 2) + (key << 4))
    key ^= key >> 28
    return _signed(key + (key << 31))
