"""Error correction over segments: a Reed-Solomon code whose symbols are equal parts of segments.

`parity` segments are added to a message's own; up to parity / 2 wrong segments, or up to `parity` segments known to be
doubtful, are put right. A symbol has at most 8 bits, so that a code word of 20-bit segments (four symbols of 5 bits)
has 7 of them, of 16-bit segments 127, of 10-bit segments 15, of 8-bit segments 255.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from reedsolo import ReedSolomonError, RSCodec

from models.balance_marking.config import MarkingConfig, MarkingError

SYMBOL_BITS = range(8, 2, -1)

_TABLES = Lock()  # the library keeps the field in use in its own module


class SegmentCode:
    """Encodes and decodes tuples of segments.

    parity  segments added, >= 1
    """

    def __init__(self, parity: int, config: MarkingConfig) -> None:
        bits = config.message_bits
        self._bits = next((size for size in SYMBOL_BITS if bits % size == 0), 0)
        self._parity = parity
        if not self._bits:
            told = f"segments of {bits} bits carry no correction."
            raise MarkingError("message_bits", told, "Use a multiple of 3, 4, 5, 6, 7 or 8 bits.")
        self._parts = bits // self._bits
        self._longest = ((1 << self._bits) - 1) // self._parts
        if not 1 <= parity < self._longest:
            raise MarkingError("parity", f"got {parity}.", f"Use 1 to {self._longest - 1} with {bits}-bit segments.")
        self._codec = _codec(parity * self._parts, self._bits)

    def encode(self, segments: Sequence[int]) -> tuple[int, ...]:
        """The segments and their parity. Raises MarkingError where there are more than one code word holds."""
        most = self._longest - self._parity
        if not 1 <= len(segments) <= most:
            raise MarkingError("segments", f"got {len(segments)}.", f"One code word holds 1 to {most}.")
        with _TABLES:
            return self._joined(self._codec.encode(self._symbols(segments)))

    def decode(self, segments: Sequence[int | None], doubtful: Sequence[int] = ()) -> tuple[int, ...] | None:
        """Received segments, None where one could not be read -> the message's; None where too many are wrong.

        doubtful: indices of segments to treat as unread.
        """
        unread = {index for index, segment in enumerate(segments) if segment is None} | set(doubtful)
        erased = [index * self._parts + part for index in sorted(unread) for part in range(self._parts)]
        received = self._symbols([segment or 0 for segment in segments])
        try:
            with _TABLES:
                message, _, _ = self._codec.decode(received, erase_pos=erased)
        except ReedSolomonError:
            return None
        return self._joined(message)

    def _symbols(self, segments: Sequence[int]) -> list[int]:
        shifts = [self._bits * part for part in reversed(range(self._parts))]
        return [segment >> shift & (1 << self._bits) - 1 for segment in segments for shift in shifts]

    def _joined(self, symbols: Sequence[int]) -> tuple[int, ...]:
        pairs = [symbols[start : start + self._parts] for start in range(0, len(symbols), self._parts)]
        return tuple(sum(int(s) << self._bits * (self._parts - 1 - at) for at, s in enumerate(pair)) for pair in pairs)


@lru_cache(maxsize=8)
def _codec(parity: int, bits: int) -> Any:
    """reedsolo builds its field tables here, once a size."""
    return RSCodec(parity, nsize=(1 << bits) - 1, c_exp=bits)
