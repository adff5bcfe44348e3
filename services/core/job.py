"""A job: the tensors of one request, or of one piece of it, on their way through a batch, and who waits for them."""

from __future__ import annotations

import asyncio
import logging
import math
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from services.core.tensors import Tensors

log = logging.getLogger("pressroom.batcher")

Outcome = Tensors | BaseException


class Waiter(Protocol):
    """Who is told a job's outcome, in the event loop: an `asyncio.Future`, or what answers without a task.

    done  whether nobody waits any more; nothing is told then
    """

    def done(self) -> bool: ...
    def set_result(self, outputs: Tensors, /) -> None: ...
    def set_exception(self, fault: BaseException, /) -> None: ...


class Job:
    """Tensors of one request (or one piece of it) and who waits for their outcome."""

    __slots__ = ("batch_rows", "began", "deadline", "ended", "key", "queued", "rows", "submitted", "tensors", "waiter")

    def __init__(self, tensors: Tensors, rows: int, waiter: Waiter) -> None:
        self.tensors = tensors
        self.rows = rows
        self.key = tuple([(name, t.dtype.char, t.shape[1:]) for name, t in tensors.items()])
        self.waiter = waiter
        self.deadline = math.inf  # perf_counter seconds
        self.queued = True
        self.batch_rows = 0
        self.submitted = self.began = self.ended = perf_counter()

    def settle(self, outcome: Outcome) -> None:
        """Tell the waiter; whatever happens there, the jobs behind this one are told theirs."""
        try:
            if isinstance(outcome, BaseException):
                self.waiter.set_exception(outcome)
            else:
                self.waiter.set_result(outcome)
        except Exception:
            log.exception("an answer could not be handed over")


Piece = tuple[Job, "asyncio.Future[Tensors]"]  # a job, and its waiter


def cut(tensors: Tensors, max_rows: int) -> list[Piece]:
    """The jobs of one set of tensors, none of them over `max_rows` rows."""
    rows = len(next(iter(tensors.values())))
    if rows <= max_rows:
        return [_awaited(tensors, rows)]
    starts = range(0, rows, max_rows)
    return [
        _awaited({name: t[i : i + max_rows] for name, t in tensors.items()}, min(max_rows, rows - i)) for i in starts
    ]


def _awaited(tensors: Tensors, rows: int) -> Piece:
    future: asyncio.Future[Tensors] = asyncio.get_running_loop().create_future()
    return Job(tensors, rows, future), future


def glue(pieces: list[Tensors]) -> Tensors:
    """The outputs of a request's pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def join(batch: list[Job]) -> Tensors:
    """The input of one forward pass."""
    if len(batch) == 1:
        return batch[0].tensors
    return {name: _stacked([job.tensors[name] for job in batch]) for name in batch[0].tensors}


def _stacked(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """`np.concatenate`, but read-only, and in one copy: numpy lets go of the interpreter for every piece.

    Each time it would have to be won back from the event loop.
    """
    first = arrays[0]
    if first.dtype.kind not in "biuf" or not all(array.flags.c_contiguous for array in arrays):
        return np.concatenate(arrays)
    return np.frombuffer(b"".join([array.data for array in arrays]), first.dtype).reshape(
        sum(map(len, arrays)), *first.shape[1:]
    )


def split(outputs: Tensors, batch: list[Job]) -> list[Outcome]:
    """Each job's own rows of the outputs."""
    pieces: list[Outcome] = []
    row = 0
    for job in batch:
        pieces.append({name: t[row : row + job.rows] for name, t in outputs.items()})
        row += job.rows
    return pieces
