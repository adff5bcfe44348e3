"""Requests and answers on disk, for debugging with real inputs: off unless a file is named, sampled, redacted.

Models whose data is private (health records) are never logged, whatever the settings say. Identifiers the caller gave
(`id`) and messages of watermarks are replaced; everything else is written as it came, so the file is created readable
by its owner only.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import orjson

from services.core.call import Call
from services.core.settings import Settings

REDACTED = "[redacted]"
_IDENTIFIERS = frozenset({"id", "patient_id", "subject_id", "user", "watermark"})


class PayloadLog:
    """Appends sampled payloads, one JSON line each."""

    def __init__(self, settings: Settings) -> None:
        self._fraction = settings.payload_log_fraction
        self._file = os.open(settings.payload_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, call: Call, request: Any, answer: Any) -> None:
        """Maybe write one exchange."""
        if call.model is None or call.model.private or random.random() >= self._fraction:
            return
        entry = {"request_id": call.request_id, "request": redact(request), "answer": redact(answer)}
        os.write(self._file, orjson.dumps(entry, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def redact(value: Any) -> Any:
    """A copy in which every identifier is replaced."""
    if isinstance(value, dict):
        return {k: REDACTED if k in _IDENTIFIERS and v is not None else redact(v) for k, v in value.items()}
    if isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.dtype == np.uint8):  # a file, or pixels
        return f"[{len(value) if isinstance(value, bytes) else value.nbytes} bytes]"
    return [redact(v) for v in value] if isinstance(value, list) else value
