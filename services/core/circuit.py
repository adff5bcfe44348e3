"""A circuit breaker: a model that fails again and again is left alone for a while, and says so.

closed     requests run; `threshold` failures in a row, without one success between them, open it
open       requests are refused at once (503 circuit_open) until `cooldown_s` has passed
half open  the next request is the trial: success closes the circuit, failure opens it again

Other models have circuits of their own. A refusal of the caller's input is not a failure.
"""

from __future__ import annotations

import math
from time import monotonic

from services.core.errors import ApiError


class Circuit:
    """State of one model.

    threshold   consecutive failed requests that open the circuit, >= 1
    cooldown_s  seconds it stays open
    """

    def __init__(self, threshold: int, cooldown_s: float) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._failures = 0
        self._open_until: float | None = None

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    @property
    def troubled(self) -> bool:
        """Whether the last request failed, or the circuit is open."""
        return self._failures > 0 or self._open_until is not None

    def check(self) -> None:
        """Raise ApiError if the circuit is open; let one trial through once it has cooled down."""
        if self._open_until is None:
            return
        left = self._open_until - monotonic()
        if left > 0:
            raise ApiError(
                "circuit_open",
                f"the model failed {self._failures} times in a row and is given a pause",
                hint="retry after the pause; the server's log holds the reason",
                retry_after_ms=math.ceil(left * 1000),
            )
        self._open_until = monotonic() + self._cooldown_s  # one trial a pause, until it succeeds

    def succeeded(self) -> None:
        self._failures, self._open_until = 0, None

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= self._threshold:
            self._open_until = monotonic() + self._cooldown_s
