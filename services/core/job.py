"""A job: the tensors of one request, or of one piece of it, on their way through a batch."""

from __future__ import annotations

import asyncio
import math
from time import perf_counter

import numpy as np

from services.core.tensors import Tensors

Outcome = Tensors | BaseException


class Job:
    """Tensors of one request (or one piece of it) and the future of its outcome."""

    __slots__ = ("batch_rows", "began", "deadline", "ended", "future", "key", "queued", "rows", "submitted", "tensors")

    def __init__(self, tensors: Tensors, rows: int, future: asyncio.Future[Tensors]) -> None:
        self.tensors = tensors
        self.rows = rows
        self.key = tuple([(name, t.dtype.char, t.shape[1:]) for name, t in tensors.items()])
        self.future = future
        self.deadline = math.inf  # perf_counter seconds
        self.queued = True
        self.batch_rows = 0
        self.submitted = self.began = self.ended = perf_counter()


def cut(tensors: Tensors, max_rows: int) -> list[Job]:
    """The jobs of one set of tensors, none of them over `max_rows` rows."""
    rows = len(next(iter(tensors.values())))
    future = asyncio.get_running_loop().create_future
    if rows <= max_rows:
        return [Job(tensors, rows, future())]
    starts = range(0, rows, max_rows)
    return [
        Job({name: t[i : i + max_rows] for name, t in tensors.items()}, min(max_rows, rows - i), future())
        for i in starts
    ]


def glue(pieces: list[Tensors]) -> Tensors:
    """The outputs of a request's pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def join(batch: list[Job]) -> Tensors:
    """The input of one forward pass."""
    if len(batch) == 1:
        return batch[0].tensors
    return {name: np.concatenate([job.tensors[name] for job in batch]) for name in batch[0].tensors}


def split(outputs: Tensors, batch: list[Job]) -> list[Outcome]:
    """Each job's own rows of the outputs."""
    pieces: list[Outcome] = []
    row = 0
    for job in batch:
        pieces.append({name: t[row : row + job.rows] for name, t in outputs.items()})
        row += job.rows
    return pieces
