"""A forecast request's fields, read and checked; what they mean is in `services.forecast_schema`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.errors import InputError
from models.forecasting.filling import POLICIES, REFUSE
from models.forecasting.series import Window, read_series
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import LATEST
from services.forecast_intervals import Intervals, Wish

MOST_ROLLS = 10  # horizons a forecast may be rolled out to
_KEYS = ("model", "version", "horizon", "series", "columns", "levels", "interval", "missing", "roll_out")
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a request asks for. columns None: all; wish None: no intervals."""

    windows: list[Window]
    horizon: int
    columns: tuple[str, ...] | None
    wish: Wish | None


def read_request(request: Json, spec: ForecastSpec, intervals: Intervals | None, most: int) -> Ask:
    """Read a request. most: series it may hold. Raises InputError."""
    if unknown := sorted(request.keys() - set(_KEYS)):
        raise InputError(
            "invalid_request",
            f"unknown field {unknown[0][:60]!r}",
            field=unknown[0][:60],
            hint=f"a request has the fields {', '.join(_KEYS)}",
        )
    horizon = _read_horizon(request.get("horizon"), _read_switch(request, "roll_out"), spec)
    wish = _read_wish(request, intervals, horizon, spec)
    missing = request.get("missing", REFUSE)
    if missing not in POLICIES:
        hint = f"one of {', '.join(POLICIES)}"
        raise InputError("invalid_request", f"missing is {str(missing)[:20]!r}", field="missing", hint=hint)
    windows = _read_windows(request.get("series"), spec, most, missing)
    for i, window in enumerate(windows):
        _check_calendar_end(window, horizon, spec, f"series[{i}].timestamps")
    columns = _read_columns(request.get("columns"), windows)
    return Ask(windows=windows, horizon=horizon, columns=columns, wish=wish)


def no_calibration(field: str) -> InputError:
    """The refusal of whatever needs intervals."""
    message = "this artifact was pressed without calibration and has no intervals"
    hint = "press it with its training csv (--data, --split) or --calibration FILE"
    return InputError("not_supported", message, field=field, hint=hint)


def _read_switch(request: Json, name: str) -> bool:
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise InputError("invalid_request", f"{name} must be true or false", field=name)
    return value


def _read_horizon(sent: Any, roll_out: bool, spec: ForecastSpec) -> int:
    if sent is None:
        return spec.horizon
    if type(sent) is not int or sent < 1:
        raise InputError("invalid_request", "horizon must be a positive whole number", field="horizon")
    most = spec.horizon * (MOST_ROLLS if roll_out else 1)
    if sent > most:
        raise InputError(
            "horizon_too_long",
            f"{sent} steps were asked for, the model forecasts {spec.horizon}"
            + (f" and is rolled out to {most} at most" if roll_out else ""),
            field="horizon",
            hint="ask for fewer steps, pick a model trained for more (GET /v1/models)"
            + ("" if roll_out else ", or let it go on from its own forecast with roll_out: true"),
        )
    return sent


def _read_wish(request: Json, intervals: Intervals | None, horizon: int, spec: ForecastSpec) -> Wish | None:
    levels, method = request.get("levels"), request.get("interval")
    if intervals is None:
        if levels is None and method is None:
            return None
        raise no_calibration("levels" if levels is not None else "interval")
    wish = intervals.read(levels, method)
    if wish is not None and horizon > spec.horizon:
        raise InputError(
            "horizon_too_long",
            f"intervals are calibrated for {spec.horizon} steps, {horizon} were asked for",
            field="horizon",
            hint="ask for fewer steps, or leave out levels",
        )
    return wish


def _read_windows(series: Any, spec: ForecastSpec, most: int, missing: str) -> list[Window]:
    entries = [series] if isinstance(series, dict) else series
    if not isinstance(entries, list):
        raise InputError("invalid_request", "series must be a list or an object", field="series")
    if not entries:
        raise InputError("empty_batch", "the request has no series", field="series", hint="send at least one")
    if len(entries) > most:
        raise InputError(
            "too_many_rows",
            f"{len(entries)} series came, the limit is {most}",
            field="series",
            hint="split the request",
        )
    return [read_series(entry, spec, f"series[{i}]", missing) for i, entry in enumerate(entries)]


def _check_calendar_end(window: Window, horizon: int, spec: ForecastSpec, field: str) -> None:
    if window.axis is None:
        return
    latest = max(int(window.axis.steps[-1]), int(window.axis.wall_clock[-1]))
    if spec.frequency.after(latest, max(horizon, spec.horizon))[-1] > LATEST:
        raise InputError("timestamps_invalid", "the forecast would end after the year 9999", field=field)


def _read_columns(sent: Any, windows: list[Window]) -> tuple[str, ...] | None:
    """Columns the answer is to hold; every series must have them."""
    if sent is None:
        return None
    if not isinstance(sent, list) or not sent or not all(isinstance(name, str) for name in sent):
        raise InputError("invalid_request", "columns must be a list of column names", field="columns")
    for index, name in enumerate(sent):
        if name in sent[:index]:
            raise InputError("invalid_request", f"column {name[:60]!r} is named twice", field=f"columns[{index}]")
        if any(name not in window.columns for window in windows):
            hint = f"columns: {', '.join(windows[0].columns[:20])}"
            raise InputError("columns_unexpected", f"no column {name[:60]!r}", field=f"columns[{index}]", hint=hint)
    return tuple(sent)
