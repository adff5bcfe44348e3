"""The forecast route's request and response, as its OpenAPI document describes them.

Documentation only: the pipeline in `models.forecasting` validates, because its refusals name the offending place.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.core.answer import Explained

Stamp = str | int


class ForecastSeries(BaseModel):
    """History of one series in raw units."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = Field(None, description="your name for the series; comes back with its forecast")
    timestamps: list[Stamp] | None = Field(
        None, description="one per row: ISO 8601 strings or epoch seconds, regular, oldest first"
    )
    start: Stamp | None = Field(None, description="first timestamp, instead of `timestamps`")
    freq: str | None = Field(None, description="must be the model's frequency, e.g. 'h'")
    future_timestamps: list[Stamp] | None = Field(
        None,
        description="of the model's whole horizon, styled as `timestamps`; default: they follow at the frequency. "
        "Networks whose calendar goes over the horizon (`settings.marks_ahead`) read their wall clock",
    )
    tz: str | None = Field(
        None, description="time zone of stamps without an offset, and of the answer's, e.g. 'Europe/Berlin'"
    )
    values: dict[str, list[float | None]] = Field(
        description="numbers per column, in the model's column order; at least `look_back` rows, the last ones are "
        "used. null is a missing value, see `missing`"
    )


class ForecastRequest(BaseModel):
    """Forecast one or many series in raw units."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one model is served")
    version: str | None = Field(None, description="served version; default: the newest")
    horizon: int | None = Field(
        None, ge=1, description="steps to return, at most the model's, or ten times that with `roll_out`; default: all"
    )
    series: list[ForecastSeries] | ForecastSeries = Field(description="one series or a list of them")
    columns: list[str] | None = Field(None, description="columns to return; default: all")
    levels: list[int] | None = Field(
        None, description="nominal coverages in percent, 1 to 99: an interval comes back for each"
    )
    interval: Literal["split", "adaptive"] | None = Field(
        None, description="split (default): the artifact's; adaptive: following the truths this server was sent"
    )
    missing: Literal["refuse", "ffill", "linear"] = Field(
        "refuse", description="what is done about missing values and time steps; the answer counts what was filled"
    )
    roll_out: bool = Field(False, description="a horizon beyond the model's goes on from its own forecast")


class HistoryUse(BaseModel):
    """Rows that came and rows the model read."""

    received: int
    used: int


class ForecastWarning(BaseModel):
    """Something the caller should know about the answer."""

    code: str
    message: str


class Interval(BaseModel):
    """Bounds of one nominal coverage, in raw units."""

    level: int
    method: Literal["split", "adaptive"]
    lower: dict[str, list[float]]
    upper: dict[str, list[float]]


class FilledHistory(BaseModel):
    """What was made up in the rows the model read: time steps put in, and values per column."""

    policy: Literal["refuse", "ffill", "linear"]
    timestamps: int
    values: dict[str, int]


class SeriesForecast(BaseModel):
    """Forecast of one series in raw units."""

    id: str | None
    timestamps: list[Stamp] | None = Field(description="of the horizon, in the style they were sent")
    values: dict[str, list[float]]
    history: HistoryUse
    warnings: list[ForecastWarning]
    filled: FilledHistory | None = Field(None, description="where a policy for missing values was named")
    intervals: list[Interval] | None = Field(None, description="one for each level asked for, ascending")


class ForecastResponse(Explained):
    """Forecasts in the order of the request, and which model made them."""

    series: list[SeriesForecast]


class TruthSeries(BaseModel):
    """What was observed of one series, in raw units."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = Field(None, description="the id the series was forecast with")
    timestamps: list[Stamp] | None = Field(
        None, description="one per row, written as in the forecast's request; default: the horizon's first rows"
    )
    tz: str | None = Field(None, description="as in the forecast's request")
    values: dict[str, list[float | None]] = Field(description="observations per column; null and absent: not known")


class TruthRequest(BaseModel):
    """Tell what really happened: intervals are checked against it, and adaptive ones learn."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one model is served")
    version: str | None = Field(None, description="any served version: a truth meets the forecasts of all of them")
    request_id: str | None = Field(
        None, description="of the forecast, whose series are meant by id or place; default: by id and timestamps"
    )
    truth: list[TruthSeries] | TruthSeries = Field(description="one series or a list of them")


class MetTruth(BaseModel):
    """How many kept forecasts one series of truth met, and how many values were compared."""

    id: str | None
    forecasts: int
    values: int


class Coverage(BaseModel):
    """Share of truths inside their intervals so far; a server looks back on its latest comparisons."""

    method: Literal["split", "adaptive"]
    level: int
    coverage: float
    values: int


class TruthResponse(Explained):
    """What was compared, and how the model's intervals are doing."""

    truth: list[MetTruth]
    coverage: list[Coverage]


def example_truth() -> dict[str, Any]:
    """The first hour after the example request, for a feeder whose forecast had intervals."""
    observed = {"id": "feeder-7", "timestamps": ["2017-10-24T00:00:00"], "values": {"OT": [10.4]}}
    return {"model": "card-etth1", "truth": [observed]}


def example_request() -> dict[str, Any]:
    """A request the bundled CARD answers: four days of a made-up daily rhythm in every column."""
    names = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    rhythm = [round(10 + 3 * math.sin(hour * math.tau / 24), 2) for hour in range(96)]
    series = {"id": "feeder-7", "start": "2017-10-20T00:00:00", "freq": "h", "values": dict.fromkeys(names, rhythm)}
    return {"model": "card-etth1", "horizon": 24, "series": [series]}
