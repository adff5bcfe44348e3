"""The forecast route's request and response, as its OpenAPI document describes them.

Documentation only: the pipeline in `models.forecasting` validates, because its refusals name the offending place.
"""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

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
    values: dict[str, list[float]] = Field(
        description="numbers per column, in the model's column order; at least `look_back` rows, the last ones are used"
    )


class ForecastRequest(BaseModel):
    """Forecast one or many series in raw units."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one model is served")
    version: str | None = Field(None, description="served version; default: the newest")
    horizon: int | None = Field(None, ge=1, description="steps to return, at most the model's; default: all")
    series: list[ForecastSeries] | ForecastSeries = Field(description="one series or a list of them")


class Timings(BaseModel):
    """Milliseconds per stage; they add up to the total."""

    preprocess_ms: float
    queue_ms: float
    inference_ms: float
    postprocess_ms: float
    total_ms: float


class HistoryUse(BaseModel):
    """Rows that came and rows the model read."""

    received: int
    used: int


class ForecastWarning(BaseModel):
    """Something the caller should know about the answer."""

    code: str
    message: str


class SeriesForecast(BaseModel):
    """Forecast of one series in raw units."""

    id: str | None
    timestamps: list[Stamp] | None = Field(description="of the horizon, in the style they were sent")
    values: dict[str, list[float]]
    history: HistoryUse
    warnings: list[ForecastWarning]


class ForecastResponse(BaseModel):
    """Forecasts in the order of the request, and which model made them."""

    model: str
    version: str
    digest: str = Field(description="of the artifact that answered, sha256:<hex>")
    request_id: str
    timings: Timings
    batch_rows: int = Field(description="rows of the forward pass that served this request")
    series: list[SeriesForecast]


def example_request() -> dict[str, Any]:
    """A request the bundled CARD answers: four days of a made-up daily rhythm in every column."""
    names = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    rhythm = [round(10 + 3 * math.sin(hour * math.tau / 24), 2) for hour in range(96)]
    series = {"id": "feeder-7", "start": "2017-10-20T00:00:00", "freq": "h", "values": dict.fromkeys(names, rhythm)}
    return {"model": "card-etth1", "horizon": 24, "series": [series]}
