"""Single fields of a health-record request: times, numbers, texts. Refusals name the place, never what was sent."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from models.errors import InputError

MOST_TEXT = 512  # characters
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_STAMP = re.compile(_DATE + r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?")
STAMP_HINT = "ISO 8601 date, or date and time; either every time has an offset or none has"


def read_stamp(value: Any, field: str) -> datetime:
    """A date or a date and time, with its offset if it has one. Raises InputError."""
    if isinstance(value, str) and _STAMP.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    raise InputError("timestamps_invalid", "this is no time", field=field, hint=STAMP_HINT)


def same_clock(stamp: datetime, at: datetime, field: str) -> datetime:
    """A time in the clock of the prediction time, without offset. Raises InputError if only one has an offset."""
    if (stamp.tzinfo is None) != (at.tzinfo is None):
        raise InputError(
            "timestamps_invalid", "this time and the prediction time do not both have an offset", field=field,
            hint=STAMP_HINT,
        )  # fmt: skip
    if stamp.tzinfo is None:
        return stamp
    try:
        return stamp.astimezone(at.tzinfo).replace(tzinfo=None)
    except OverflowError:
        raise InputError("timestamps_invalid", "this is no time", field=field, hint=STAMP_HINT) from None


def finite(value: Any, field: str) -> float | None:
    """A number or None. Raises InputError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError("value_not_numeric", "this is no number", field=field, hint="send a number, or null for none")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError("value_not_finite", "this number is not finite", field=field, hint="send null for none")
    return number


def text(value: Any, field: str) -> str | None:
    """A text or None. Raises InputError."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise InputError("invalid_request", f"expected a text of at most {MOST_TEXT} characters", field=field)
    return value


def code(value: Any, field: str) -> str:
    """A code. Raises InputError."""
    if not isinstance(value, str) or not 0 < len(value) <= MOST_TEXT:
        raise InputError(
            "invalid_request", f"expected a code of 1 to {MOST_TEXT} characters", field=field,
            hint="vocabulary/code, as in the MEDS data the model was trained on",
        )  # fmt: skip
    return value
