"""How forecasts are written down as the native answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from models.forecasting.series import Window
from models.forecasting.spec import ForecastSpec
from services.forecast_intervals import Wish
from services.forecast_request import Ask

Json = dict[str, Any]
Floats = npt.NDArray[np.float64]


def write_series(window: Window, forecast: Floats, radii: Floats | None, ask: Ask, spec: ForecastSpec) -> Json:
    """One series. forecast [>= horizon, C]; radii [levels, H, C] half-widths, or None. Raw units."""
    steps, chosen = ask.horizon, ask.columns or window.columns
    order = [window.columns.index(name) for name in chosen]
    entry: Json = {
        "id": window.id,
        "timestamps": _stamps(window, steps, spec),
        "values": _table(forecast[:steps], order, chosen),
        "history": {"received": window.received, "used": spec.look_back},
        "warnings": _warnings(window, steps, spec),
    }
    if window.filled is not None:
        filled = window.filled
        entry["filled"] = {"policy": filled.policy, "timestamps": filled.stamps, "values": filled.values}
    if ask.wish is not None and radii is not None:
        entry["intervals"] = _intervals(forecast[:steps], radii[:, :steps], ask.wish, order, chosen)
    return entry


def _intervals(forecast: Floats, radii: Floats, wish: Wish, order: list[int], chosen: tuple[str, ...]) -> list[Json]:
    return [
        {
            "level": level,
            "method": wish.method,
            "lower": _table(forecast - radius, order, chosen),
            "upper": _table(forecast + radius, order, chosen),
        }
        for level, radius in zip(wish.levels, radii, strict=True)
    ]


def _table(values: Floats, order: list[int], chosen: tuple[str, ...]) -> Json:
    columns = np.ascontiguousarray(values.T)
    return {name: columns[index] for name, index in zip(chosen, order, strict=True)}


def _stamps(window: Window, steps: int, spec: ForecastSpec) -> list[str] | list[int] | None:
    if window.axis is None:
        return None
    if window.future is not None and steps <= spec.horizon:
        return window.future.sent(steps)
    return window.axis.write(spec.frequency.after(int(window.axis.steps[-1]), steps))


def _warnings(window: Window, steps: int, spec: ForecastSpec) -> list[Json]:
    notes = []
    if window.received > spec.look_back:
        message = f"got {window.received} time steps; the last {spec.look_back} were used"
        notes.append({"code": "history_truncated", "message": message})
    if window.filled is not None and (window.filled.stamps or window.filled.values):
        values = sum(window.filled.values.values())
        message = f"{values} values were filled ({window.filled.policy}), {window.filled.stamps} time steps put in"
        notes.append({"code": "history_filled", "message": message})
    if steps > spec.horizon:
        message = f"steps {spec.horizon + 1} to {steps} were forecast from the model's own forecast"
        notes.append({"code": "rolled_out", "message": message})
    return notes
