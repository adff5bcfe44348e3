"""JSON as this client speaks it: UTF-8, compact, and never a NaN."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ._errors import UnexpectedAnswer, UsageError


def encode(payload: Any) -> bytes:
    """UTF-8 JSON; UsageError if something in it is no JSON value."""
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_scalar)
        return text.encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request holds a value JSON cannot carry: {error}") from error


def decode(body: bytes) -> Any:
    """The value of a body; UnexpectedAnswer if it is not JSON."""
    try:
        return json.loads(body)
    except ValueError as error:
        hint = "is this address a Pressroom server?"
        raise UnexpectedAnswer(f"the answer is not JSON: {body[:60]!r}", hint=hint) from error


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} ({type(value).__name__})")
