"""One request on its way through the server: identity, deadline, and where its time went.

    started ──preprocess──► submitted ──queue──► run begins ──inference──► run ends ──postprocess──► finished

The four stages add up to the total. The same numbers go to the caller and to the metrics.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from random import getrandbits
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from services.core.errors import ApiError

if TYPE_CHECKING:
    from services.core.model import ServedModel

STAGES = ("preprocess", "queue", "inference", "postprocess")
PRIORITIES = ("interactive", "batch")
_VISIBLE = re.compile(r"[\x21-\x7e]{1,128}")


def request_id_from(sent: str | None) -> str:
    """The caller's request id if it is 1 to 128 visible ASCII characters, else a new random one."""
    return sent if sent is not None and _VISIBLE.fullmatch(sent) else f"{getrandbits(96):024x}"


def read_priority(wish: str, field: str) -> bool:
    """Whether a request is interactive. Raises ApiError naming the field if the wish is not a priority."""
    if wish not in PRIORITIES:
        raise ApiError(
            "invalid_request",
            f"priority {wish[:20]!r} is not known",
            field=field,
            hint=f"one of {', '.join(PRIORITIES)}",
        )
    return wish == "interactive"


class Call:
    """State of one request. Times are `time.perf_counter()` seconds."""

    __slots__ = (
        "batch_rows",
        "began",
        "deadline",
        "ended",
        "finished",
        "interactive",
        "key_id",
        "model",
        "named_deadline",
        "pinned_version",
        "protocol",
        "request_id",
        "route",
        "started",
        "submitted",
        "traceparent",
    )

    def __init__(self, route: str, protocol: str, request_id: str, deadline: float | None = None) -> None:
        self.route = route
        self.protocol = protocol  # "http" or "grpc"
        self.request_id = request_id
        self.deadline = deadline  # perf_counter seconds, or None
        self.named_deadline = False  # the caller's own, not the server's default
        self.interactive = True  # False: priority `batch`, served after interactive requests
        self.pinned_version: str | None = None  # X-Model-Version, for requests that name none
        self.traceparent: str | None = None  # the caller's trace
        self.key_id: str | None = None  # whose API key it came with, where there are keys
        self.model: ServedModel | None = None
        self.batch_rows = 0
        self.restart()

    def restart(self) -> None:
        """Start the clock: the request is here in full."""
        self.started = self.submitted = self.began = self.ended = self.finished = perf_counter()

    def ran(self, submitted: float, began: float, ended: float, batch_rows: int) -> None:
        """Note the interval of the model run that served this request."""
        self.submitted, self.began, self.ended, self.batch_rows = submitted, began, ended, batch_rows

    def finish(self) -> None:
        """The answer is ready to be encoded: stop the clock. A request no model ran for was all preprocessing."""
        self.finished = perf_counter()
        if not self.batch_rows:
            self.submitted = self.began = self.ended = self.finished

    def wall_time(self) -> str:
        """When the request started, ISO 8601 in UTC."""
        return datetime.fromtimestamp(time() - (perf_counter() - self.started), UTC).isoformat(timespec="milliseconds")

    def stage_seconds(self) -> tuple[float, float, float, float]:
        """Seconds per stage, in the order of STAGES; they add up to finished - started."""
        return (
            self.submitted - self.started,
            self.began - self.submitted,
            self.ended - self.began,
            self.finished - self.ended,
        )

    def stages(self) -> dict[str, float]:
        """Seconds per stage by name."""
        return dict(zip(STAGES, self.stage_seconds(), strict=True))

    def timings(self) -> dict[str, float]:
        """Milliseconds per stage and in total, as callers see them."""
        return {
            "preprocess_ms": round((self.submitted - self.started) * 1e3, 4),
            "queue_ms": round((self.began - self.submitted) * 1e3, 4),
            "inference_ms": round((self.ended - self.began) * 1e3, 4),
            "postprocess_ms": round((self.finished - self.ended) * 1e3, 4),
            "total_ms": round((self.finished - self.started) * 1e3, 4),
        }

    def explanation(self) -> dict[str, Any]:
        """Which model answered, and how: part of every answer."""
        model = self.model
        assert model is not None
        return {
            "model": model.name,
            "version": model.version,
            "digest": model.digest,
            "request_id": self.request_id,
            "timings": self.timings(),
            "batch_rows": self.batch_rows,
        }
