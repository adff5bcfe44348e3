"""What a text's tokens say about every message: who was available to whom, without a row a message.

`TableVotes`: all messages share the permutations, so a position needs one number a permutation. `PairVotes`: a hash
decides, so a position needs its hash and its token. Both add their counts to any range of messages, and both know how
a count would be distributed if no message had been embedded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from models.balance_marking.hashing import Int64, mix_in_place, remainder_in_place

Counts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Votes(Protocol):
    """The evidence of some positions."""

    @property
    def positions(self) -> int:
        """How many positions vote."""

    def add(self, messages: Int64, counts: Counts) -> None:
        """Add, for each of `messages` [M], the positions whose token was available to it: int32 [M], in place."""

    def terms(self) -> list[Floats]:
        """Independent terms of the count of a message that was not embedded: probabilities of 0, 1, 2, ... each."""


@dataclass(frozen=True)
class TableVotes:
    """bases int64 [n] (see `partition.message_bases`), table int32 [n, P]: available under each permutation."""

    bases: Int64
    table: Counts

    @property
    def positions(self) -> int:
        """How many positions vote."""
        return len(self.bases)

    def merged(self) -> TableVotes:
        """Positions of one base pick the same permutation for every message: their rows are added up.

        Counts stay what they are; the terms become those of the joint vote, as the rows of a base are not independent.
        """
        bases, member = np.unique(self.bases, return_inverse=True)
        table = np.zeros((len(bases), self.table.shape[1]), np.int32)
        np.add.at(table, member, self.table)
        return TableVotes(bases, table)

    def add(self, messages: Int64, counts: Counts) -> None:
        """See Votes."""
        keys, scratch = np.empty_like(messages), np.empty_like(messages)
        for base, row in zip(self.bases.tolist(), self.table, strict=True):
            np.add(messages, base, out=keys)
            mix_in_place(keys, scratch)
            remainder_in_place(keys, len(row), scratch)
            counts += row[keys]

    def terms(self) -> list[Floats]:
        """See Votes: every permutation is equally likely."""
        return [np.bincount(row) / len(row) for row in self.table]


@dataclass(frozen=True)
class PairVotes:
    """bases int64 [n], tokens int64 [n]: available where the hash of both and a message is odd."""

    bases: Int64
    tokens: Int64
    stride: int

    @property
    def positions(self) -> int:
        """How many positions vote."""
        return len(self.bases)

    def add(self, messages: Int64, counts: Counts) -> None:
        """See Votes."""
        keys, scratch = np.empty_like(messages), np.empty_like(messages)
        for base, token in zip(self.bases.tolist(), self.tokens.tolist(), strict=True):
            np.add(messages, base, out=keys)
            mix_in_place(keys, scratch)
            keys *= self.stride
            keys += token
            mix_in_place(keys, scratch)
            keys &= 1
            counts += keys.astype(np.int32)

    def terms(self) -> list[Floats]:
        """See Votes: odd and even are equally likely."""
        return [np.full(2, 0.5)] * len(self.bases)
