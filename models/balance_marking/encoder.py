"""Marks a text while it is generated: one object a sequence, called with the logits of every next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.balance_marking.config import MarkingError
from models.balance_marking.hashing import Int64
from models.balance_marking.partition import Partition

SAMPLE = 1024  # logits looked at first


@dataclass(frozen=True)
class Marker:
    """Leans generation towards the available tokens of a message's segments, from the `window`-th token on.

    partition   how messages split the vocabulary
    segments    a message of `message_bits` bits each, in order; after the last the first comes again
    vocabulary_map  int64 [generator's vocabulary]: each token in the partition's vocabulary; None: they are one
    """

    partition: Partition
    segments: tuple[int, ...]
    vocabulary_map: Int64 | None = None

    def __post_init__(self) -> None:
        if not self.segments:
            raise MarkingError("segments", "got none.", "Give the message as one segment at least.")
        for segment in self.segments:
            if not 0 <= segment < self.partition.config.messages:
                bits = self.partition.config.message_bits
                raise MarkingError("segments", f"{segment} does not fit {bits} bits.", "Split it into more segments.")

    def __call__(self, prompt: Sequence[int], generated: Sequence[int], logits: npt.NDArray[np.float32]) -> None:
        """logits: float32 [vocabulary], changed in place; the prompt does not enter, as the decoder never sees it."""
        config = self.partition.config
        position = len(generated)
        if position < config.window:
            return
        before = generated[position - config.window :]
        if self.vocabulary_map is not None:
            before = self.vocabulary_map[np.asarray(before)].tolist()
        tokens = _likeliest(logits, config.top_k)
        asked = tokens if self.vocabulary_map is None else self.vocabulary_map[tokens]
        message = self.segments[config.segment_of(position, len(self.segments))]
        favoured = self.partition.available(before, message, asked)
        if config.reach:
            favoured &= logits[tokens] >= logits[tokens].max() - config.reach
        if self.partition.held_back:
            logits[tokens[~favoured]] -= config.delta
        else:
            logits[tokens[favoured]] += config.delta

    def embedded(self, tokens: int) -> int:
        """How many different segments stand in full in `tokens` generated tokens."""
        config = self.partition.config
        return min(len(self.segments), max(0, tokens - config.window) // config.segment_tokens)


def _likeliest(logits: npt.NDArray[np.float32], top_k: int) -> Int64:
    """Indices of the `top_k` highest logits, in any order; all where top_k is 0.

    A sample of the logits tells a bound that about twice as many exceed, so that only those need to be sorted out.
    """
    size = len(logits)
    if not 0 < top_k < size:
        return np.arange(size)
    step = max(1, size // SAMPLE)
    sample = logits[::step]
    place = max(0, len(sample) - 2 * top_k // step - 1)
    found = np.flatnonzero(logits >= np.partition(sample, place)[place])
    if len(found) < top_k:
        found = np.arange(size)
    chosen: Int64 = found[np.argpartition(logits[found], len(found) - top_k)[-top_k:]]
    return chosen
