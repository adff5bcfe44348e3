"""Shadow traffic: a share of the answered requests is computed by another version too, and the answers are compared.

The caller never waits for it and never sees it fail. Only the size of the difference is kept, as a metric.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import numpy as np
import numpy.typing as npt

from services.core.call import Call
from services.core.metrics import SHADOW_DIFFERENCE, SHADOW_REQUESTS
from services.core.model import ServedModel
from services.core.repository import Repository

log = logging.getLogger("pressroom.shadow")

MAX_RUNNING = 16  # repeats at once; beyond this a request is not followed
Numbers = npt.NDArray[np.float64]


class Shadow:
    """Follows answered requests."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._running: set[asyncio.Task[None]] = set()

    def follow(
        self, call: Call, numbers: Callable[[], Numbers], again: Callable[[ServedModel, Call], Awaitable[Numbers]]
    ) -> None:
        """Repeat an answered request on the shadow version, if it is drawn.

        numbers  the answer's numbers, flat
        again    computes the same request on a model and returns its numbers, flat
        """
        assert call.model is not None
        other = self._repository.follower(call)
        if other is None or len(self._running) >= MAX_RUNNING:
            return
        task = asyncio.create_task(self._compare(call.model, other, numbers(), again))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _compare(
        self,
        model: ServedModel,
        other: ServedModel,
        expected: Numbers,
        again: Callable[[ServedModel, Call], Awaitable[Numbers]],
    ) -> None:
        labels = (model.name, model.version, other.version)
        call = Call("shadow", "none", "shadow")
        call.interactive = False
        try:
            got = await again(other, call)
        except Exception:
            SHADOW_REQUESTS.labels(*labels, "failed").inc()
            log.warning("shadow %s failed on a request %s answered", other.artifact.tag, model.artifact.tag)
            return
        if got.shape != expected.shape:
            SHADOW_REQUESTS.labels(*labels, "incomparable").inc()
            return
        SHADOW_REQUESTS.labels(*labels, "compared").inc()
        SHADOW_DIFFERENCE.labels(*labels).observe(float(np.abs(got - expected).max(initial=0.0)))
