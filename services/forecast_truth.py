"""`POST /v1/forecast/truth`: what really happened, matched with the forecasts it is the truth of.

By the forecast's request id, series by series (or by series id), whole horizon or its first rows; or by series id and
timestamps, as observations come in: each value then meets every kept forecast of that series that reached it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.forecasting.frequency import Frequency, Stamps
from models.forecasting.series import read_columns
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import read_time_axis
from models.forecasting.zones import find_zone
from services.forecast_intervals import Intervals
from services.forecast_memory import Issued, Memory

KEYS = frozenset({"model", "version", "request_id", "truth"})
_SERIES = frozenset({"id", "timestamps", "tz", "values"})
Json = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """Observed rows of one series. values float64 [rows, C], NaN where unknown; steps int64 [rows] or None."""

    series: str | None
    steps: Stamps | None
    values: Floats


def read_truth(request: Json, spec: ForecastSpec, most: int) -> list[Truth]:
    """The truths of a request. Raises InputError."""
    if unknown := sorted(request.keys() - KEYS):
        hint = f"a truth has the fields {', '.join(sorted(KEYS))}"
        raise InputError("invalid_request", f"unknown field {unknown[0][:60]!r}", field=unknown[0][:60], hint=hint)
    by = request.get("request_id")
    if by is not None and not isinstance(by, str):
        raise InputError("invalid_request", "request_id must be a string", field="request_id")
    sent = request.get("truth")
    entries = [sent] if isinstance(sent, dict) else sent
    if not isinstance(entries, list):
        raise InputError("invalid_request", "truth must be a list of series, or one", field="truth")
    if not entries:
        raise InputError("empty_batch", "the request has no truth", field="truth", hint="send at least one series")
    if len(entries) > most:
        message = f"{len(entries)} series came, the limit is {most}"
        raise InputError("too_many_rows", message, field="truth", hint="split the request")
    return [_read(entry, spec, f"truth[{i}]", by is not None) for i, entry in enumerate(entries)]


def _read(entry: Any, spec: ForecastSpec, field: str, by_request: bool) -> Truth:
    if not isinstance(entry, dict) or (unknown := sorted(entry.keys() - _SERIES)):
        where = field if not isinstance(entry, dict) else f"{field}.{unknown[0]}"
        hint = f"an object with the fields {', '.join(sorted(_SERIES))}"
        raise InputError("invalid_request", "a series of truth cannot be read", field=where, hint=hint)
    name, stamps = entry.get("id"), entry.get("timestamps")
    if name is not None and not isinstance(name, str):
        raise InputError("invalid_request", "id must be a string", field=f"{field}.id")
    if not by_request and (name is None or stamps is None):
        hint = "send the forecast's request_id, or id and timestamps of the series"
        raise InputError("invalid_request", "which forecast is it the truth of?", field=field, hint=hint)
    values = _read_values(entry.get("values"), spec, f"{field}.values")
    if stamps is None:
        return Truth(name, None, values)
    zone, by_clock = find_zone(entry.get("tz"), f"{field}.tz"), spec.frequency.by_clock
    axis = read_time_axis(stamps, f"{field}.timestamps", zone, by_clock=by_clock)
    if len(axis.instants) != len(values):
        message = f"{len(axis.instants)} timestamps for {len(values)} rows of values"
        raise InputError("length_mismatch", message, field=f"{field}.timestamps")
    return Truth(name, axis.steps, values)


def _read_values(values: Any, spec: ForecastSpec, field: str) -> Floats:
    """[rows, C] in the model's column order; columns that were not sent are unknown."""
    assert spec.columns is not None  # intervals need names
    if not isinstance(values, dict) or not values:
        hint = f"columns: {', '.join(spec.columns)}"
        raise InputError(
            "invalid_request", "values must be an object of column name to numbers", field=field, hint=hint
        )
    if extra := [name for name in values if name not in spec.columns]:
        hint = f"known: {', '.join(spec.columns)}"
        raise InputError("columns_unexpected", f"not known to the model: {extra[0][:60]}", field=field, hint=hint)
    sent = read_columns(values, field, gaps=True)
    table = np.full((len(sent), len(spec.columns)), np.nan)
    table[:, [spec.columns.index(name) for name in values]] = sent
    return table


class Desk:
    """Where truths of every version of a model meet its forecasts."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._intervals: dict[tuple[str, str], Intervals] = {}

    def open(self, intervals: Intervals) -> None:
        """From now on truths teach this version."""
        self._intervals[intervals.name, intervals.version] = intervals

    def shut(self, intervals: Intervals) -> None:
        """Unless another took its place: no longer."""
        if self._intervals.get((intervals.name, intervals.version)) is intervals:
            del self._intervals[intervals.name, intervals.version]

    def settle(self, model: str, request: str | None, truths: Sequence[Truth], spec: ForecastSpec) -> list[Json]:
        """Compare and learn; per truth: its id, forecasts it met, values compared. Raises InputError."""
        assert spec.columns is not None
        shape = (spec.horizon, len(spec.columns))
        with self._memory as memory:
            kept = None if request is None else memory.of_request(model, request, shape)
            if request is not None and not kept:
                raise InputError(
                    "invalid_request",
                    f"no forecast with intervals is kept for request id {request[:60]!r}",
                    field="request_id",
                    hint="kept are forecasts that were asked for `levels`, until their truth has come or twice their "
                    "horizon has passed; send truths to the server that made them, or go by id and timestamps",
                )
            answer = []
            for index, truth in enumerate(truths):
                found = (
                    memory.of_series(model, truth.series or "", shape) if kept is None else _pick(kept, index, truth)
                )
                met = [(one, table) for one in found if (table := _align(truth, one, spec.frequency)) is not None]
                for version in sorted({one.version for one, _ in met}):
                    if (intervals := self._intervals.get((model, version))) is not None:
                        intervals.learn([pair for pair in met if pair[0].version == version])
                kept = None if kept is None else _without(kept, met)
                values = sum(int(np.isfinite(table).sum()) for _, table in met)
                answer.append({"id": truth.series, "forecasts": len(met), "values": values})
        return answer


def _pick(kept: list[Issued], index: int, truth: Truth) -> list[Issued]:
    """Of a request's forecasts: those of the truth's series id, or the one at its position."""
    if truth.series is not None:
        return [one for one in kept if one.series == truth.series]
    return [one for one in kept if one.position == index]


def _without(kept: list[Issued], met: Sequence[tuple[Issued, Floats]]) -> list[Issued]:
    """The kept forecasts with the cells noted that have just met their truth."""
    known = {one.key: np.isfinite(table) for one, table in met}
    return [replace(one, scored=one.scored | known[one.key]) if one.key in known else one for one in kept]


def _align(truth: Truth, one: Issued, frequency: Frequency) -> Floats | None:
    """The truth on the forecast's grid [H, C], NaN where unknown or met before; None if nothing meets it."""
    horizon = len(one.forecast)
    table = np.full(one.forecast.shape, np.nan)
    if truth.steps is None:
        rows = truth.values[:horizon]
        table[: len(rows)] = rows
    elif one.last is not None:
        grid = frequency.after(one.last, horizon)
        places = np.minimum(np.searchsorted(grid, truth.steps), horizon - 1)
        inside = grid[places] == truth.steps
        table[places[inside]] = truth.values[inside]
    table[one.scored] = np.nan
    return table if np.isfinite(table).any() else None
