"""One series as a caller sends it -> a window the network can read.

    {"id": "a", "timestamps": [...] | "start": ..., "freq": ..., "values": {"HUFL": [...], ...},
     "future_timestamps": [...]}

Future timestamps are those of the horizon, for who knows them better than "last stamp plus frequency": their wall
clock may change its offset. A network whose calendar goes over the horizon reads them.
Every refusal names the field, what came and what was expected. History longer than the look-back is cut to its last
L rows; nothing else is ever repaired here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.forecasting.frequency import Frequency, Stamps
from models.forecasting.pipeline import check_range, too_short, with_horizon
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import TimeAxis, read_time_axis

_KEYS = frozenset({"id", "timestamps", "start", "freq", "values", "future_timestamps"})


@dataclass(frozen=True)
class Window:
    """The last L rows of one series.

    history   float64 [L, C], raw units, finite
    columns   their names
    axis      their timestamps, or None
    future    the horizon's timestamps, where the caller gave them
    received  rows that came, >= L
    id        the caller's name for the series, or None
    """

    history: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    axis: TimeAxis | None
    received: int
    id: str | None = None
    future: TimeAxis | None = None

    def clock(self, spec: ForecastSpec) -> Stamps | None:
        """The wall clock the network's calendar needs: int64 [L], or [L + H] where marks go ahead."""
        if self.axis is None or not spec.marks_ahead:
            return None if self.axis is None else self.axis.wall_clock
        if self.future is None:
            continued: Stamps = with_horizon(self.axis.wall_clock[None], spec)[0]
            return continued
        return np.concatenate([self.axis.wall_clock, self.future.wall_clock])


def read_series(series: Any, spec: ForecastSpec, field: str) -> Window:
    """Validate one series of a request. `field` is its path, e.g. `series[0]`. Raises InputError."""
    if not isinstance(series, dict):
        raise InputError("invalid_request", f"a series must be an object, not {_kind(series)}", field=field)
    if unknown := sorted(series.keys() - _KEYS):
        raise InputError(
            "invalid_request",
            f"unknown field {unknown[0]!r}",
            field=f"{field}.{unknown[0]}",
            hint=f"a series has the fields {', '.join(sorted(_KEYS))}",
        )
    name = series.get("id")
    if name is not None and not isinstance(name, str):
        raise InputError("invalid_request", f"id must be a string, not {_kind(name)}", field=f"{field}.id")
    history, columns = _read_values(series.get("values"), spec, f"{field}.values")
    axis = _read_axis(series, spec, len(history), field)
    future = _read_future(series.get("future_timestamps"), axis, spec, f"{field}.future_timestamps")
    return replace(make_window(history, columns, axis, spec, f"{field}.values", name), future=future)


def make_window(
    history: npt.NDArray[np.float64],
    columns: tuple[str, ...],
    axis: TimeAxis | None,
    spec: ForecastSpec,
    field: str,
    name: str | None = None,
) -> Window:
    """The last L rows of [rows, C] finite values; refuses a shorter history and irregular timestamps."""
    received, needed = len(history), spec.look_back
    if received < needed:
        raise too_short(received, spec, field)
    check_range(history, spec, field)
    if axis is not None:
        spec.frequency.check(axis.instants, f"{field.removesuffix('.values')}.timestamps")
        axis = axis.last(needed)
    return Window(history[-needed:], columns, axis, received, name)


def _read_values(values: Any, spec: ForecastSpec, field: str) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    if not isinstance(values, dict):
        raise InputError(
            "invalid_request",
            f"values must be an object of column name to numbers, not {_kind(values)}",
            field=field,
            hint=f"columns: {', '.join(spec.columns)}" if spec.columns else "name at least one column",
        )
    check_columns(tuple(values), spec, field)
    history = _read_together(list(values.values()))
    if history is not None:
        return history, tuple(values)
    arrays = [_read_column(column, f"{field}.{name}") for name, column in values.items()]
    lengths = [len(a) for a in arrays]
    if len(set(lengths)) > 1:
        odd = next(i for i, n in enumerate(lengths) if n != lengths[0])
        names = tuple(values)
        raise InputError(
            "length_mismatch",
            f"{names[odd]} has {lengths[odd]} values, {names[0]} has {lengths[0]}",
            field=f"{field}.{names[odd]}",
            hint="all columns must have the same length",
        )
    return np.stack(arrays, axis=1), tuple(values)


def _read_together(columns: list[Any]) -> npt.NDArray[np.float64] | None:
    """All columns at once, [rows, C]; None if anything is wrong with one, which the long way then names."""
    lengths = {len(column) if type(column) is list else -1 for column in columns}
    if len(lengths) != 1 or -1 in lengths or not all(set(map(type, column)) <= {int, float} for column in columns):
        return None
    history = np.array(columns, dtype=np.float64).T
    return history if np.isfinite(history).all() else None


def check_columns(names: tuple[str, ...], spec: ForecastSpec, field: str) -> None:
    """Refuse missing, unexpected and re-ordered columns."""
    if spec.columns is None:
        if not names:
            raise InputError("columns_missing", "no column was sent", field=field, hint="name at least one column")
        return
    hint = f"send exactly these columns, in this order: {', '.join(spec.columns)}"
    if missing := [c for c in spec.columns if c not in names]:
        raise InputError("columns_missing", f"missing: {', '.join(missing)}", field=field, hint=hint)
    if extra := [c for c in names if c not in spec.columns]:
        raise InputError(
            "columns_unexpected", f"not known to the model: {', '.join(extra[:8])}", field=field, hint=hint
        )
    if names != spec.columns:
        raise InputError("columns_reordered", f"the order is {', '.join(names)}", field=field, hint=hint)


def _read_column(values: Any, field: str) -> npt.NDArray[np.float64]:
    if not isinstance(values, list):
        raise InputError("invalid_request", f"a column must be a list of numbers, not {_kind(values)}", field=field)
    if not set(map(type, values)) <= {int, float}:
        index = next(i for i, v in enumerate(values) if type(v) not in (int, float))
        missing = values[index] is None
        raise InputError(
            "value_not_finite" if missing else "value_not_numeric",
            f"value {index} is {'missing' if missing else 'not a number but ' + _kind(values[index])}",
            field=f"{field}[{index}]",
            hint="fill or drop missing values before sending" if missing else None,
        )
    column = np.array(values, dtype=np.float64)
    if not np.isfinite(column).all():
        index = int(np.flatnonzero(~np.isfinite(column))[0])
        raise InputError("value_not_finite", f"value {index} is not finite", field=f"{field}[{index}]")
    return column


def _read_axis(series: Mapping[str, Any], spec: ForecastSpec, rows: int, field: str) -> TimeAxis | None:
    stamps, start, freq = series.get("timestamps"), series.get("start"), series.get("freq")
    if freq is not None:
        _check_freq(freq, spec, f"{field}.freq")
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
        first = read_time_axis([start], f"{field}.start")
        instants = spec.frequency.range(int(first.instants[0]), rows)
        offset = None if first.offset is None else np.repeat(first.offset, rows)
        return TimeAxis(instants, offset, first.as_text, first.separator)
    axis = read_time_axis(stamps, f"{field}.timestamps")
    if len(axis.instants) != rows:
        raise InputError(
            "length_mismatch", f"{len(axis.instants)} timestamps for {rows} rows of values", field=f"{field}.timestamps"
        )
    return axis


def _read_future(sent: Any, axis: TimeAxis | None, spec: ForecastSpec, field: str) -> TimeAxis | None:
    """The horizon's stamps as they were sent: all of them, going on where the history ends."""
    if sent is None:
        return None
    if axis is None:
        hint = "send `timestamps`, or `start` with `freq`"
        raise InputError("timestamps_invalid", "the history has no timestamps to go on from", field=field, hint=hint)
    future = read_time_axis(sent, field)
    if len(future.instants) != spec.horizon:
        message = f"{len(future.instants)} future timestamps came, the model's horizon has {spec.horizon} steps"
        raise InputError("length_mismatch", message, field=field, hint="send one for each step, or none")
    if (future.offset is None) != (axis.offset is None) or future.as_text != axis.as_text:
        message = "the future is written in another style than the history"
        raise InputError("timestamps_invalid", message, field=field, hint="write both with offsets, or both without")
    check_future(future.instants, axis.instants[-1], spec, field)
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


def _kind(value: Any) -> str:
    """A JSON word for a value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
