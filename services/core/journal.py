"""What is written down about a finished request: an access-log line, a trace, and (only if switched on) a payload.

The access log holds identity, outcome and times, never contents: one JSON line a request on logger `pressroom.access`,
for `errors` only (the default), for `all`, or `off`.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import orjson

from services.core.call import Call
from services.core.payload_log import PayloadLog
from services.core.settings import Settings

if TYPE_CHECKING:
    from services.core.tracing import Tracing

access = logging.getLogger("pressroom.access")


class Journal:
    """One per worker; every front end reports to it."""

    def __init__(self, settings: Settings) -> None:
        self._level = settings.access_log
        self.tracing = _tracing(settings) if settings.otlp_endpoint else None
        self.payloads = PayloadLog(settings) if settings.payload_log else None
        if self._level != "off":
            _write_bare_lines()

    def finished(self, call: Call, code: str, key_id: str | None) -> None:
        """A request was answered (code `ok`) or refused."""
        if self.tracing is not None:
            self.tracing.record(call, code)
        if self._level == "all" or (self._level == "errors" and code != "ok"):
            access.info(orjson.dumps(_entry(call, code, key_id)).decode())

    def close(self) -> None:
        """Hand over what is still held."""
        if self.tracing is not None:
            self.tracing.close()


def _tracing(settings: Settings) -> Tracing:
    from services.core.tracing import Tracing  # costs nothing where tracing is off

    return Tracing(settings)


def _entry(call: Call, code: str, key_id: str | None) -> dict[str, Any]:
    model = call.model
    return {
        "time": call.wall_time(),
        "request_id": call.request_id,
        "protocol": call.protocol,
        "route": call.route,
        "model": None if model is None else model.artifact.tag,
        "code": code,
        "key": key_id,
        "batch_rows": call.batch_rows,
        **call.timings(),
    }


def _write_bare_lines() -> None:
    """Lines of JSON alone, without the log's own prefix."""
    if not access.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        access.addHandler(handler)
        access.propagate = False
        access.setLevel(logging.INFO)
