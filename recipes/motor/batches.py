"""Packed batches: pieces of several histories side by side in rows of one length, so that little is padding.

Letters: B rows, L positions, K bag, P labels, b bins, t tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from recipes.common import generator
from recipes.motor.settings import Training
from recipes.motor.targets import History

PADDING = -1  # the segment of positions that belong to nobody


@dataclass(frozen=True)
class Piece:
    """Positions first .. last - 1 of a history."""

    history: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class Batch:
    """tokens int64 [B, L, K], weights float32 [B, L, K], ages and times float32 [B, L], segment int64 [B, L].

    label int64 [P] places in the flattened rows; until float32 [P, t] seconds, event bool [P, t]
    """

    tokens: Tensor
    weights: Tensor
    ages: Tensor
    times: Tensor
    segment: Tensor
    label: Tensor
    until: Tensor
    event: Tensor


def training_batches(histories: Sequence[History], wanted: Training) -> Iterator[list[list[Piece]]]:
    """Endless; every epoch cuts long histories at new places and shuffles. A batch is `rows` rows of pieces."""
    epoch = 0
    while True:
        random = generator(wanted.seed, epoch)
        pieces = [
            piece
            for i, history in enumerate(histories)
            for piece in _cut(i, len(history.ages), wanted.row_length, int(random.integers(wanted.row_length)))
        ]
        rows = packed([pieces[i] for i in random.permutation(len(pieces))], wanted.row_length)
        for start in range(0, len(rows), wanted.rows):
            yield rows[start : start + wanted.rows]
        epoch += 1


def validation_batches(histories: Sequence[History], wanted: Training) -> list[list[list[Piece]]]:
    """Each history once, uncut where it fits a row."""
    pieces = [p for i, h in enumerate(histories) for p in _cut(i, len(h.ages), wanted.row_length, 0)]
    rows = packed(pieces, wanted.row_length)
    return [rows[start : start + wanted.rows] for start in range(0, len(rows), wanted.rows)]


def _cut(history: int, length: int, row: int, offset: int) -> list[Piece]:
    if length <= row:
        return [Piece(history, 0, length)] if length else []
    edges = [0, *range(offset or row, length, row), length]
    return [Piece(history, first, last) for first, last in pairwise(edges)]


def packed(pieces: Sequence[Piece], row: int) -> list[list[Piece]]:
    """First fit, in the order given."""
    rows: list[list[Piece]] = []
    room: list[int] = []
    for piece in pieces:
        place = next((i for i, left in enumerate(room) if left >= len(piece)), len(rows))
        if place == len(rows):
            rows.append([])
            room.append(row)
        rows[place].append(piece)
        room[place] -= len(piece)
    return rows


def assemble(rows: Sequence[Sequence[Piece]], histories: Sequence[History], length: int) -> Batch:
    """Tensors of a batch; the rows are as long as its fullest one, at most `length`."""
    length = min(length, max(sum(len(piece) for piece in row) for row in rows))
    size = max(histories[piece.history].tokens.shape[1] for row in rows for piece in row)
    tokens, weights = np.zeros((len(rows), length, size), np.int64), np.zeros((len(rows), length, size), np.float32)
    ages, times = np.zeros((len(rows), length), np.float32), np.zeros((len(rows), length), np.float32)
    segment = np.full((len(rows), length), PADDING)
    label, until, event = [], [], []
    for i, row in enumerate(rows):
        at = 0
        for number, piece in enumerate(row):
            own, here, there = histories[piece.history], slice(piece.first, piece.last), slice(at, at + len(piece))
            tokens[i, there, : own.tokens.shape[1]] = own.tokens[here]
            weights[i, there, : own.tokens.shape[1]] = own.weights[here]
            ages[i, there], times[i, there], segment[i, there] = own.ages[here], own.times[here], number
            inside = (own.places >= piece.first) & (own.places < piece.last)
            label.append(own.places[inside] - piece.first + at + i * length)
            until.append(own.until[inside])
            event.append(own.event[inside])
            at += len(piece)
    parts = (tokens, weights, ages, times, segment, *(np.concatenate(part) for part in (label, until, event)))
    return Batch(*(torch.from_numpy(part) for part in parts))
