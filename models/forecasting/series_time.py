"""The time of a series as a caller sends it: stamps of its rows, of its horizon, and the frequency it claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.errors import InputError
from models.forecasting.frequency import Frequency, Stamps
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import TimeAxis, read_time_axis
from models.forecasting.zones import find_zone


def read_axis(series: Mapping[str, Any], spec: ForecastSpec, rows: int, field: str) -> TimeAxis | None:
    """The timestamps of a series' rows: sent, counted from `start`, or None where the network needs none."""
    stamps, start, freq = series.get("timestamps"), series.get("start"), series.get("freq")
    if freq is not None:
        _check_freq(freq, spec, f"{field}.freq")
    zone, by_clock = find_zone(series.get("tz"), f"{field}.tz"), spec.frequency.by_clock
    if stamps is None and start is None:
        if spec.takes_marks:
            raise InputError(
                "timestamps_invalid",
                "the model reads the calendar and needs timestamps",
                field=f"{field}.timestamps",
                hint=f"send `timestamps`, or `start` with `freq` {str(spec.frequency)!r}",
            )
        return None
    if stamps is not None and start is not None:
        raise InputError("invalid_request", "send either timestamps or start, not both", field=f"{field}.start")
    if start is not None:
        first = read_time_axis([start], f"{field}.start", zone, by_clock=by_clock)
        return first.at(spec.frequency.range(int(first.steps[0]), rows))
    axis = read_time_axis(stamps, f"{field}.timestamps", zone, by_clock=by_clock)
    if len(axis.instants) != rows:
        raise InputError(
            "length_mismatch", f"{len(axis.instants)} timestamps for {rows} rows of values", field=f"{field}.timestamps"
        )
    return axis


def read_future(sent: Any, axis: TimeAxis | None, spec: ForecastSpec, field: str) -> TimeAxis | None:
    """The horizon's stamps as they were sent: all of them, going on where the history ends."""
    if sent is None:
        return None
    if axis is None:
        hint = "send `timestamps`, or `start` with `freq`"
        raise InputError("timestamps_invalid", "the history has no timestamps to go on from", field=field, hint=hint)
    future = read_time_axis(sent, field, axis.zone, by_clock=axis.by_clock)
    if len(future.instants) != spec.horizon:
        message = f"{len(future.instants)} future timestamps came, the model's horizon has {spec.horizon} steps"
        raise InputError("length_mismatch", message, field=field, hint="send one for each step, or none")
    if future.style.kind != axis.style.kind:
        message = "the future is written in another style than the history"
        raise InputError("timestamps_invalid", message, field=field, hint="write both with offsets, or both without")
    check_future(future.steps, axis.steps[-1], spec, field)
    return future


def check_future(instants: Stamps, last: int, spec: ForecastSpec, field: str) -> None:
    """Refuse horizon stamps [H] that do not go on from `last` at the model's frequency."""
    expected = spec.frequency.after(int(last), spec.horizon)
    if (wrong := np.flatnonzero(instants != expected)).size:
        first = int(wrong[0])
        message = f"timestamp {first} is {int(instants[first] - expected[first])} s off the step it should be"
        hint = f"the horizon follows the history's last stamp, one every {spec.frequency}"
        raise InputError("frequency_mismatch", message, field=f"{field}[{first}]", hint=hint)


def _check_freq(freq: Any, spec: ForecastSpec, field: str) -> None:
    try:
        same = Frequency.parse(freq) == spec.frequency
    except (TypeError, ValueError):
        same = False
    if not same:
        raise InputError(
            "frequency_mismatch",
            f"got {str(freq)[:20]!r}, the model expects {str(spec.frequency)!r}",
            field=field,
            hint=f"resample the series to {str(spec.frequency)!r}",
        )
