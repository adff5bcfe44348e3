"""One series as a caller sends it -> a window the network can read.

    {"id": "a", "timestamps": [...] | "start": ..., "freq": ..., "values": {"HUFL": [...], ...},
     "tz": "Europe/Berlin", "future_timestamps": [...]}

Future timestamps are those of the horizon, for who knows them better than "last stamp plus frequency": their wall
clock may change its offset. A network whose calendar goes over the horizon reads them.
Every refusal names the field, what came and what was expected. History longer than the look-back is cut to its last
L rows; what is missing is filled only by the policy the caller names (`models.forecasting.filling`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from models.errors import InputError
from models.forecasting.filling import REFUSE, Filled, Values, fill, last_steps, steps_of
from models.forecasting.frequency import Stamps
from models.forecasting.pipeline import check_range, too_short
from models.forecasting.series_time import read_axis, read_future
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import TimeAxis

FILL = "fill or drop missing values before sending, or name a policy in `missing`: ffill or linear"

_KEYS = frozenset({"id", "timestamps", "start", "freq", "values", "tz", "future_timestamps"})


@dataclass(frozen=True)
class Window:
    """The last L rows of one series.

    history   float64 [L, C], raw units, finite
    columns   their names
    axis      their timestamps, or None
    future    the horizon's timestamps, where the caller gave them
    received  rows that came, >= L
    id        the caller's name for the series, or None
    filled    what was made up where the caller named a policy, else None
    """

    history: Values
    columns: tuple[str, ...]
    axis: TimeAxis | None
    received: int
    id: str | None = None
    future: TimeAxis | None = None
    filled: Filled | None = None

    def clock(self, spec: ForecastSpec) -> Stamps | None:
        """The wall clock the network's calendar needs: int64 [L], or [L + H] where marks go ahead."""
        if self.axis is None or not spec.marks_ahead:
            return None if self.axis is None else self.axis.wall_clock
        if self.future is not None:
            return np.concatenate([self.axis.wall_clock, self.future.wall_clock])
        ahead = spec.frequency.after(int(self.axis.steps[-1]), spec.horizon)
        return np.concatenate([self.axis.wall_clock, self.axis.clock_of(ahead)])


def read_series(series: Any, spec: ForecastSpec, field: str, missing: str = REFUSE) -> Window:
    """Validate one series of a request, whose path is `field`, e.g. `series[0]`. Raises InputError.

    missing  what is done about gaps, one of `filling.POLICIES`
    """
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
    history, columns = _read_values(series.get("values"), spec, f"{field}.values", gaps=missing != REFUSE)
    axis = read_axis(series, spec, len(history), field)
    future = read_future(series.get("future_timestamps"), axis, spec, f"{field}.future_timestamps")
    make = _whole_window if missing == REFUSE else partial(_filled_window, policy=missing)
    return replace(make(history, columns, axis, spec, field), id=name, future=future)


def _whole_window(
    history: Values, columns: tuple[str, ...], axis: TimeAxis | None, spec: ForecastSpec, field: str
) -> Window:
    """The last L rows of [rows, C] finite values; refuses a shorter history and irregular timestamps."""
    received, needed = len(history), spec.look_back
    if received < needed:
        raise too_short(received, spec, f"{field}.values")
    check_range(history, spec, f"{field}.values")
    if axis is not None:
        spec.frequency.check(axis.steps, f"{field}.timestamps")
        axis = axis.last(needed)
    return Window(history[-needed:], columns, axis, received)


def _filled_window(
    history: Values, columns: tuple[str, ...], axis: TimeAxis | None, spec: ForecastSpec, field: str, policy: str
) -> Window:
    """The last L steps of [rows, C] values with gaps, filled."""
    received, needed = len(history), spec.look_back
    if not received:
        raise too_short(0, spec, f"{field}.values")
    steps = np.arange(received) if axis is None else steps_of(axis.steps, spec.frequency)
    if steps is None:
        assert axis is not None
        spec.frequency.check(axis.steps, f"{field}.timestamps")
        raise AssertionError("irregular stamps were accepted")
    if steps[-1] + 1 < needed:
        raise too_short(int(steps[-1]) + 1, spec, f"{field}.values")
    whole, filled = fill(history, steps, needed, columns, policy, f"{field}.values")
    check_range(whole, spec, f"{field}.values")
    if axis is not None:
        axis = axis.at(last_steps(axis.steps, int(steps[-1]), needed, spec.frequency))
    return Window(whole, columns, axis, received, filled=filled)


def _read_values(values: Any, spec: ForecastSpec, field: str, *, gaps: bool) -> tuple[Values, tuple[str, ...]]:
    if not isinstance(values, dict):
        raise InputError(
            "invalid_request",
            f"values must be an object of column name to numbers, not {_kind(values)}",
            field=field,
            hint=f"columns: {', '.join(spec.columns)}" if spec.columns else "name at least one column",
        )
    check_columns(tuple(values), spec, field)
    return read_columns(values, field, gaps=gaps), tuple(values)


def read_columns(values: dict[str, Any], field: str, *, gaps: bool) -> Values:
    """Columns of equal length as [rows, C]; null and NaN are NaN where there may be gaps. Raises InputError."""
    history = _read_together(list(values.values()))
    if history is not None:
        return history
    arrays = [_read_column(column, f"{field}.{name}", gaps=gaps) for name, column in values.items()]
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
    return np.stack(arrays, axis=1)


def _read_together(columns: list[Any]) -> Values | None:
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


def _read_column(values: Any, field: str, *, gaps: bool) -> Values:
    """A column of numbers; null and NaN are NaN where there may be gaps."""
    if not isinstance(values, list):
        raise InputError("invalid_request", f"a column must be a list of numbers, not {_kind(values)}", field=field)
    if gaps:
        values = [math.nan if value is None else value for value in values]
    if not set(map(type, values)) <= {int, float}:
        index = next(i for i, v in enumerate(values) if type(v) not in (int, float))
        missing = values[index] is None
        raise InputError(
            "value_not_finite" if missing else "value_not_numeric",
            f"value {index} is {'missing' if missing else 'not a number but ' + _kind(values[index])}",
            field=f"{field}[{index}]",
            hint=FILL if missing else None,
        )
    column = np.array(values, dtype=np.float64)
    unusable = np.isinf(column) if gaps else ~np.isfinite(column)
    if unusable.any():
        index = int(np.flatnonzero(unusable)[0])
        raise InputError("value_not_finite", f"value {index} is not finite", field=f"{field}[{index}]")
    return column


def _kind(value: Any) -> str:
    """A JSON word for a value's type."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
