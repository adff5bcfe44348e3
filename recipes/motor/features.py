"""Frozen features at each question: the head's binned features of the last position not after its time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.motor.network import Motor
from models.motor.vocabulary import Position, Vocabulary, position_before
from recipes.motor.labels import Question
from recipes.motor.records import Record
from recipes.motor.targets import bags

_WHOLE = 2048  # positions up to which one pass over a record answers all its questions

Floats = npt.NDArray[np.float64]


def binned_features(
    network: Motor, vocabulary: Vocabulary, records: Sequence[Record], asked: Sequence[Question]
) -> Floats:
    """[N, b, r]. Causal attention: a position's features do not depend on what follows it."""
    found: list[Tensor] = [torch.empty(0)] * len(asked)
    by_record: dict[int, list[int]] = {}
    for row, question in enumerate(asked):
        by_record.setdefault(question.record, []).append(row)
    with torch.inference_mode():
        for record, rows in by_record.items():
            positions = vocabulary.positions(records[record].events, records[record].birth)
            places = [_place(positions, asked[row]) for row in rows]
            for row, features in zip(rows, _at(network, positions, places), strict=True):
                found[row] = features
    return torch.stack(found).numpy().astype(np.float64)


def _place(positions: list[Position], question: Question) -> int:
    place = position_before(positions, question.time)
    if place is None:
        raise ValueError("a question before the first position")
    return place


def _at(network: Motor, positions: list[Position], places: list[int]) -> list[Tensor]:
    """Features at places; long records are read as far back as the network can see, once a place."""
    if len(positions) <= _WHOLE:
        made = network.head.features(_represent(network, positions)[places])
        return list(made)
    reach = network.config.reach
    windows = (positions[max(0, place + 1 - reach) : place + 1] for place in places)
    return [network.head.features(_represent(network, window)[-1:])[0] for window in windows]


def _represent(network: Motor, positions: Sequence[Position]) -> Tensor:
    """[n, D]."""
    tokens, weights = bags(positions)
    ages = torch.tensor([p.age_days for p in positions], dtype=torch.float32)
    times = torch.tensor([p.standardised_age for p in positions], dtype=torch.float32)
    out: Tensor = network(
        torch.from_numpy(tokens)[None], torch.from_numpy(weights)[None], ages[None], times[None, :, None]
    )
    return out[0]
