"""Time zones by their IANA name: local clocks to instants and back, where clocks jump and where they repeat an hour."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from models.errors import InputError
from models.forecasting.frequency import Stamps

_SAFE = (-62135596800 + 2 * 86_400, 253402300799 - 2 * 86_400)  # years 1 to 9999 whatever the offset


def find_zone(name: Any, field: str) -> ZoneInfo | None:
    """The zone of that name; None for None. Raises InputError for a name the time zone database does not have."""
    if name is None:
        return None
    if not isinstance(name, str) or name not in _names():
        shown = repr(name)[:40]
        raise InputError(
            "timestamps_invalid",
            f"the time zone database has no {shown}",
            field=field,
            hint='name a zone as "Europe/Berlin" or "UTC"',
        )
    return _zone(name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:  # listed, yet unreadable
        return None


def offsets(instants: Stamps, zone: ZoneInfo) -> Stamps:
    """Seconds east of UTC at each instant, int64 [L]."""
    inside = np.clip(instants, *_SAFE).tolist()
    return np.array([_offset(datetime.fromtimestamp(i, UTC).astimezone(zone)) for i in inside], dtype=np.int64)


def localise(clock: Stamps, zone: ZoneInfo, field: str) -> Stamps:
    """Instants of a zone's wall clock, int64 [L], in the order they came.

    An hour that occurs twice is the first one, unless the stamp before it is that one or later already. Raises
    InputError for a time the zone's clocks skip.
    """
    instants = np.empty_like(clock)
    before = None
    for i, seconds in enumerate(clock.tolist()):
        moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone)
        early, late = (seconds - _offset(moment.replace(fold=fold)) for fold in (0, 1))
        if early > late:  # clocks were put forward over this time
            raise InputError(
                "timestamps_invalid",
                f"timestamp {i} does not exist in {zone.key}: clocks skip {moment:%Y-%m-%d %H:%M}",
                field=f"{field}[{i}]",
                hint="send the time the clocks showed, or stamps with an offset",
            )
        instants[i] = before = late if before is not None and early <= before else early
    return instants


def _offset(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
