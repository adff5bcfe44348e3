"""Batches of patients: bounded by tokens, not by rows, and fair between lengths.

Patients of one padded length share a forward pass as long as rows x length stays within the token budget; one longer
than the budget goes alone. After a batch of one length the next one is of another if any waits: a patient of 16,000
events delays those behind it by its own batch, never by a queue of its like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from services.core.batcher import Batcher, BatchObserver, BatchPolicy
from services.core.job import Job
from services.core.tensors import Tensors


class TokenBatcher(Batcher):
    """The queue of one record model. Tensors are `tokens` [rows, length, bag] and their companions."""

    ahead = 1  # batches take long here: who is next is decided when there is room

    def __init__(
        self, run: Callable[[Tensors], Tensors], policy: BatchPolicy, observer: BatchObserver, tokens: int
    ) -> None:
        super().__init__(run, policy, observer)
        self._tokens = tokens
        self._last_length = 0

    def _room(self, lead: Job) -> int:
        length = length_of(lead)
        self._last_length = length
        return max(1, min(self.policy.max_rows, self._tokens // length))

    def _reorder(self, queue: deque[Job]) -> None:
        """Bring the oldest live job of another length than the last batch's to the front, the others in their order."""
        for i, job in enumerate(queue):
            if not job.waiter.done() and length_of(job) != self._last_length:
                del queue[i]
                queue.appendleft(job)
                return


def length_of(job: Job) -> int:
    """Padded positions of a row; a dropped job has no tensors any more."""
    tokens = job.tensors.get("tokens")
    return 1 if tokens is None else int(tokens.shape[1])
