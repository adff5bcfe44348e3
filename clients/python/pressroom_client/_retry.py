"""The course of one call: which attempts it makes and how long it pauses between them.

Pure decisions: no sleeping, no sending, so the sync and the async client share it and tests drive it with their own
clock. Pauses double from `first_pause` to `longest_pause`; jitter only shortens them; a server's Retry-After replaces
them. A pause that would outlast the call's total timeout is not begun: the last error is raised instead.
"""

from __future__ import annotations

import logging
import uuid

from . import _constants as c
from ._config import Clock, Retry, Timeout
from ._errors import APIConnectionError, APITimeoutError, PressroomError
from ._exchange import Attempt

log = logging.getLogger("pressroom_client")


def retryable(error: PressroomError) -> bool:
    """Whether the same request may fare better later."""
    if isinstance(error, APITimeoutError) and error.phase == "total":
        return False
    if isinstance(error, APIConnectionError) or error.http_status in c.RETRIED_HTTP_STATUSES:
        return True
    return error.grpc_status in c.RETRIED_GRPC_STATUSES and error.code != "payload_too_large"


def backoff(retry: Retry, number: int, chance: float) -> float:
    """Seconds before further attempt `number` (from 0); `chance` in [0, 1) draws the jitter."""
    pause = min(retry.first_pause * 2.0 ** min(number, 32), retry.longest_pause)
    return pause * (1 - retry.jitter * chance)


class Course:
    """Attempts of one call, from the first to the last."""

    def __init__(self, retry: Retry, timeout: Timeout, clock: Clock) -> None:
        self._retry = retry
        self._timeout = timeout
        self._clock = clock
        self._number = 0
        self._ends_at = None if timeout.total is None else clock.now() + timeout.total
        self.request_id = uuid.uuid4().hex

    def attempt(self) -> Attempt:
        """The next attempt, its timeouts cut to what is left of the total."""
        left = self._left()
        timeout = self._timeout.capped(None if left is None else max(left, 0.001))
        return Attempt(
            number=self._number,
            request_id=self.request_id,
            timeout=timeout,
            ends_at=self._ends_at,
            now=self._clock.now,
        )

    def pause_after(self, error: PressroomError) -> float | None:
        """Seconds to wait before the next attempt, or None: there is none."""
        error.request_id = error.request_id or self.request_id
        if self._number >= self._retry.count or not retryable(error):
            return None
        pause = self._pause(error)
        left = self._left()
        if pause is None or (left is not None and pause >= left):
            return None
        self._number += 1
        log.info("retry %d in %.2f s after %s (request id %s)", self._number, pause, error.code, self.request_id)
        return pause

    def _pause(self, error: PressroomError) -> float | None:
        if error.retry_after is None:
            return backoff(self._retry, self._number, self._clock.random())
        return error.retry_after if error.retry_after <= self._retry.retry_after_limit else None

    def _left(self) -> float | None:
        return None if self._ends_at is None else self._ends_at - self._clock.now()
