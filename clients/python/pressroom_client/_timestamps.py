"""Timestamps on their way to the wire and back.

To the wire: ISO 8601 text (with the offset if there is a zone) or epoch seconds. Back: datetime64[us], in UTC if the
wire's text had an offset or was epoch seconds, else the wall clock as sent. Values are not judged here: a NaT goes out
as text, so that the server refuses it by its position like any other bad timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, tzinfo
from typing import Any

import numpy as np

from ._errors import UnexpectedAnswer, UsageError

Stamp = str | int


def to_wire(timestamps: Iterable[Any], field: str) -> list[Stamp]:
    """Anything that holds points in time, as ISO text or epoch seconds.

    Arrays of datetime64 or integers, datetimes, pandas timestamps and text all do; a float is refused with UsageError.
    """
    array = timestamps if isinstance(timestamps, np.ndarray) else None
    if array is not None and array.dtype.kind == "M":
        return list(map(str, np.datetime_as_string(_shortest(array)).tolist()))
    if array is not None and array.dtype.kind in "iu":
        return [int(stamp) for stamp in array.tolist()]
    return [stamp_to_wire(stamp, field) for stamp in timestamps]


def stamp_to_wire(stamp: Any, field: str) -> Stamp:
    """One point in time as ISO text or epoch seconds."""
    if isinstance(stamp, str):
        return stamp
    if isinstance(stamp, (date, datetime)):
        return stamp.isoformat()
    if isinstance(stamp, np.datetime64):
        return str(stamp)
    if isinstance(stamp, (int, np.integer)) and not isinstance(stamp, bool):
        return int(stamp)
    hint = "send ISO 8601 text, datetimes, datetime64 or whole epoch seconds"
    raise UsageError(f"got {stamp!r} ({type(stamp).__name__}), expected a point in time", field=field, hint=hint)


def from_wire(stamps: Sequence[Any]) -> tuple[np.ndarray, tzinfo | None]:
    """datetime64[us] [H] and the zone: None for a wall clock, UTC for epoch seconds, else the first stamp's offset."""
    try:
        if all(isinstance(stamp, int) for stamp in stamps):
            return np.asarray(stamps, "datetime64[s]").astype("datetime64[us]"), UTC
        moments = [datetime.fromisoformat(stamp) for stamp in stamps]
    except (TypeError, ValueError) as error:
        raise UnexpectedAnswer(f"the answer's timestamps cannot be read: {error}", field="timestamps") from error
    zone = moments[0].tzinfo
    if zone is not None:
        moments = [moment.astimezone(UTC).replace(tzinfo=None) for moment in moments]
    return np.asarray(moments, "datetime64[us]"), zone


def _shortest(array: np.ndarray) -> np.ndarray:
    """Whole seconds if nothing is lost: pandas' nanoseconds would print nine zeros a row."""
    seconds = array.astype("datetime64[s]")
    same = (seconds == array) | np.isnat(array)
    return seconds if same.all() else array
