"""A watermarking scheme: all that encoder and decoder share but the secret key, as an artifact keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from models.balance_marking.config import MarkingConfig, MarkingError
from models.balance_marking.correction import SegmentCode
from models.balance_marking.partition import BalancedPartition
from models.balance_marking.proxy import Proxy
from models.balance_marking.segments import join_message, segments_for, split_message

LARGEST_DELTA = 20.0  # logit units; beyond it only available tokens would ever be chosen
NO_KEY = 0


@dataclass(frozen=True, kw_only=True)
class MarkingScheme:
    """See MarkingConfig; `parity` segments are added to every message for error correction.

    level  declared rate at which unmarked texts are called marked, in (0, 0.5]
    """

    vocabulary: int
    message_bits: int = 20
    tokens_per_bit: float = 9.0
    delta: float = 2.0
    window: int = 1
    hash_window: int = 1
    permutations: int = 100
    top_k: int = 1000
    reach: float = 6.0
    parity: int = 0
    level: float = 0.01

    def __post_init__(self) -> None:
        self.config(NO_KEY)
        if self.parity:
            SegmentCode(self.parity, self.config(NO_KEY))
        if not 0 < self.level <= 0.5:
            raise MarkingError("level", f"got {self.level}.", "Give a rate above 0 and up to 0.5.")
        if self.delta > LARGEST_DELTA:
            raise MarkingError("delta", f"got {self.delta}.", f"At most {LARGEST_DELTA:g}.")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> MarkingScheme:
        """What `as_settings` wrote (schemes pressed before `reach` have none). Raises TypeError or MarkingError."""
        return cls(**{"reach": 0.0} | dict(settings))

    def as_settings(self) -> dict[str, Any]:
        """For an artifact's manifest."""
        return asdict(self)

    def config(self, key: int, delta: float | None = None) -> MarkingConfig:
        """The configuration under a secret key. delta None: the scheme's."""
        shared = {one.name: getattr(self, one.name) for one in fields(MarkingConfig) if one.name != "key"}
        return MarkingConfig(**shared | {"key": key, "delta": self.delta if delta is None else delta})

    def partition(self, key: int, proxy: Proxy, delta: float | None = None) -> BalancedPartition:
        """How messages split the vocabulary under a key."""
        return BalancedPartition(self.config(key, delta), proxy)

    def segments(self, bits: int) -> int:
        """Segments a message of so many bits takes, parity included."""
        return segments_for(bits, self.config(NO_KEY)) + self.parity

    def encode(self, message: int, bits: int) -> tuple[int, ...]:
        """The segments to embed. Raises MarkingError where the message does not fit."""
        split = split_message(message, bits, self.config(NO_KEY))
        return split if self._code is None else self._code.encode(split)

    def decode(self, read: Sequence[int | None], doubtful: Sequence[int] = ()) -> int | None:
        """The message of the segments that were read (None: unread); None where it cannot be put together.

        doubtful  indices of segments to treat as unread, where there is error correction
        """
        if self._code is not None:
            corrected = self._code.decode(read, doubtful)
            return None if corrected is None else join_message(corrected, self.config(NO_KEY))
        known = [segment for segment in read if segment is not None]
        return join_message(known, self.config(NO_KEY)) if len(known) == len(read) else None

    def tokens_needed(self, segments: int) -> int:
        """Generated tokens after which all segments stand in full."""
        return self.config(NO_KEY).tokens_for(segments)

    @cached_property
    def _code(self) -> SegmentCode | None:
        return SegmentCode(self.parity, self.config(NO_KEY)) if self.parity else None


def shared_level(level: float, readings: int) -> float:
    """The level of each of several readings of one text, so that one of them errs with `level` at most (Šidák)."""
    return -math.expm1(math.log1p(-level) / readings)
