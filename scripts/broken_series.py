"""What a forecaster refuses, shown by making it refuse: each entry breaks one good series in one way.

The pipeline's own answer goes into docs/forecasting.md, so the page cannot drift from the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from models.errors import InputError
from models.forecasting.frequency import Frequency
from models.forecasting.scaler import Scaler
from models.forecasting.series import read_series
from models.forecasting.spec import ForecastSpec

COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
SPEC = ForecastSpec(  # as itransformer-etth1, with another scaler
    look_back=96,
    horizon=96,
    columns=COLUMNS,
    frequency=Frequency("h"),
    calendar=Frequency("h"),
    scaler=Scaler(np.zeros(len(COLUMNS)), np.ones(len(COLUMNS))),
)
LENGTH = 96

Series = dict[str, Any]


def good() -> Series:
    """96 hours of seven columns, accepted as it is."""
    stamps = [f"2026-01-{5 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(LENGTH)]
    return {"timestamps": stamps, "values": {name: [float(hour % 24) for hour in range(LENGTH)] for name in COLUMNS}}


def _value(index: int, value: Any) -> Callable[[Series], None]:
    def change(series: Series) -> None:
        series["values"]["OT"][index] = value

    return change


def _stamps(change: Callable[[list[Any]], list[Any]]) -> Callable[[Series], None]:
    def applied(series: Series) -> None:
        series["timestamps"] = change(series["timestamps"])

    return applied


def _columns(change: Callable[[dict[str, list[float]]], dict[str, list[float]]]) -> Callable[[Series], None]:
    def applied(series: Series) -> None:
        series["values"] = change(series["values"])

    return applied


def _short(series: Series) -> None:
    series["timestamps"] = series["timestamps"][:72]
    series["values"] = {name: column[:72] for name, column in series["values"].items()}


def _skip(stamps: list[Any]) -> list[Any]:
    """Hour 50 is missing, the rest moves up."""
    return stamps[:50] + stamps[51:] + ["2026-01-09 00:00:00"]


def _half_hourly(stamps: list[Any]) -> list[Any]:
    return [f"2026-01-{5 + i // 48:02d} {i % 48 // 2:02d}:{30 * (i % 2):02d}:00" for i in range(len(stamps))]


BROKEN: tuple[tuple[str, Callable[[Series], None]], ...] = (
    ("72 rows", _short),
    ("no column `OT`", _columns(lambda v: {k: v[k] for k in COLUMNS[:-1]})),
    ("a further column `TEMP`", _columns(lambda v: {**v, "TEMP": v["OT"]})),
    ("`OT` first", _columns(lambda v: {k: v[k] for k in ("OT", *COLUMNS[:-1])})),
    ("95 values in `OT`", _columns(lambda v: {**v, "OT": v["OT"][:-1]})),
    ("95 timestamps", _stamps(lambda s: s[:-1])),
    ("`null` in `OT`", _value(17, None)),
    ("infinity in `OT`", _value(17, math.inf)),
    ('`"12.5"` in `OT`', _value(17, "12.5")),
    ("1e300 in `OT`", _value(17, 1e300)),
    ("no timestamps", _stamps(lambda s: None)),  # type: ignore[arg-type, return-value]
    ("30 February", _stamps(lambda s: [*s[:-1], "2026-02-30 23:00:00"])),
    ("text and numbers mixed", _stamps(lambda s: [*s[:-1], 1767999600])),
    ("two rows swapped", _stamps(lambda s: [*s[:40], s[41], s[40], *s[42:]])),
    ("a row twice", _stamps(lambda s: [*s[:41], s[40], *s[42:]])),
    ("hour 50 left out", _stamps(_skip)),
    ("every 30 minutes", _stamps(_half_hourly)),
    ('`freq` "15min"', lambda series: series.update(freq="15min")),
    ("a field `static`", lambda series: series.update(static={"site": 4})),
)


def refusal(change: Callable[[Series], None]) -> InputError:
    """The refusal of a series broken this way. Raises LookupError if it is accepted."""
    series = good()
    change(series)
    try:
        read_series(series, SPEC, "series[0]")
    except InputError as error:
        return error
    raise LookupError("the series was accepted")
