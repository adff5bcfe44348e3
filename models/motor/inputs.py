"""Positions of a history as the tensors the network's graph takes (see `export.ehr_graph`).

Lengths and bags are rounded up to a few sizes, so that patients of like size share a forward pass. The padding stands
behind the answering position, which attention never looks at: it changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from models.motor.vocabulary import Position

Tensors = dict[str, npt.NDArray[Any]]
_SHORTEST, _NARROWEST = 8, 4


def padded_length(length: int) -> int:
    """The length a history is padded to: 8, 12, 16, 24, 32, 48, ...; a third of it at most is padding."""
    size = _SHORTEST
    while size < length:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def padded_bag(size: int) -> int:
    """The bag size positions are padded to: 1 (flat vocabularies), 4, 8, 16, ..."""
    return 1 if size == 1 else max(_NARROWEST, 1 << (size - 1).bit_length())


def to_tensors(
    positions: Sequence[Position], *, aged: bool, length: int | None = None, bag: int | None = None
) -> Tensors:
    """One patient as a batch of one: tokens, weights [1, L, K], ages [1, L], times [1, L, 1], last [1].

    aged         whether the network reads the standardised age
    length, bag  sizes to pad to; default: no padding
    """
    length = length or len(positions)
    widest = max(len(p.tokens) for p in positions)
    bag = bag or widest
    tokens = np.zeros((1, length, bag), dtype=np.int64)
    weights = np.zeros((1, length, bag), dtype=np.float32)
    ages = np.zeros((1, length), dtype=np.float32)
    for i, position in enumerate(positions):
        tokens[0, i, : len(position.tokens)] = position.tokens
        weights[0, i, : len(position.weights)] = position.weights
    ages[0, : len(positions)] = [p.age_days for p in positions]
    ages[0, len(positions) :] = positions[-1].age_days
    made: Tensors = {"tokens": tokens, "weights": weights, "ages": ages}
    if aged:
        times = np.zeros((1, length, 1), dtype=np.float32)
        times[0, : len(positions), 0] = [p.standardised_age for p in positions]
        made["times"] = times
    made["last"] = np.array([len(positions) - 1])
    return made


def serving_tensors(positions: Sequence[Position], *, aged: bool) -> Tensors:
    """The same, padded as the service pads."""
    return to_tensors(
        positions,
        aged=aged,
        length=padded_length(len(positions)),
        bag=padded_bag(max(len(p.tokens) for p in positions)),
    )
