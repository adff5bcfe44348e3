"""The health-record route's request and response, as its OpenAPI document describes them.

Documentation only: `services.ehr_request` validates, because its refusals name the place and never what was sent.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from services.core.answer import Explained


class EhrEvent(BaseModel):
    """One row of a record, under MEDS names."""

    model_config = ConfigDict(extra="forbid")

    time: str | None = Field(
        description="ISO 8601 date or date and time; a date is its midnight; null: static, not read by the model"
    )
    code: str = Field(description="vocabulary/code, e.g. SNOMED/59621000; MEDS_BIRTH and MEDS_DEATH are read as such")
    numeric_value: float | None = Field(None, description="finite; null: none")
    text_value: str | None = None
    unit: str | None = None


class EhrPatient(BaseModel):
    """One patient's record: events in any order."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = Field(None, description="your name for the patient; comes back with the answer, is never logged")
    birth: str | None = Field(None, description="date or date and time; needed unless an event MEDS_BIRTH says it")
    prediction_time: str | None = Field(None, description="this patient's own, in place of the request's")
    events: list[EhrEvent]


class EhrRequest(BaseModel):
    """Predict times to events of patients, as of a moment."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one model is served")
    version: str | None = Field(None, description="served version; default: the newest")
    prediction_time: str | None = Field(
        None, description="ISO 8601; nothing after it is read. Needed unless every patient has its own"
    )
    patients: list[EhrPatient] | None = Field(None, description="one or more; or else `events_parquet`")
    events_parquet: str | None = Field(
        None,
        description="base64 of a parquet file in MEDS layout: subject_id, time, code, and optionally numeric_value, "
        "text_value, unit; other columns are ignored; one patient a subject_id, answered in ascending order",
    )
    tasks: list[str] | None = Field(
        None,
        description="adapters (`name` or `name:version`) and pretraining codes; default: every adapter of the model, "
        "or, if it has none, every pretraining code",
    )
    horizons_days: list[float] | None = Field(None, description="> 0, at most 64; default 365, 730, 1825")
    return_representation: bool = Field(False, description="the patient's representation, too")
    strict_same_day: bool = Field(
        False, description="leave out events at midnight of the prediction's own day: dates may hide a later hour"
    )


class EhrCounts(BaseModel):
    """What became of the events; `received` is the sum of the others."""

    received: int
    used: int = Field(description="read by the network")
    dropped_future: int = Field(description="after the prediction time")
    dropped_same_day: int = Field(description="at midnight of the prediction's day, under strict_same_day")
    without_time: int
    duplicates: int = Field(description="equal to another event in all fields")
    unknown: int = Field(description="nothing of them is in the model's dictionary")
    repeated: int = Field(description="all of their tokens came earlier on the same day")
    truncated: int = Field(description="too long ago to have an influence; most of a very long record is not looked at")


class EhrHazard(BaseModel):
    """A piecewise constant hazard."""

    edges_days: list[float | None] = Field(description="bins + 1 edges; the last is null: unbounded")
    per_day: list[float] = Field(description="rate in each bin")
    unit: str = Field(description="`1/day`")


class EhrTask(BaseModel):
    """One task's answer for one patient. Lists follow `horizons_days`."""

    task: str
    source: str = Field(description="`adapter` or `pretraining`")
    version: str | None = Field(description="of the adapter; null: the model's own head")
    digest: str | None = Field(description="of the adapter's file, sha256:<hex>")
    outcome: str = Field(description="what is predicted, in words")
    horizons_days: list[float]
    survival: list[float] = Field(description="probability that the event has not happened by each horizon, 0..1")
    risk: list[float] = Field(description="1 - survival")
    hazard: EhrHazard
    median_days: float | None = Field(description="time at which survival is one half; null: not reached")
    median: str = Field(description="`reached` or `not reached`")
    calibration: str = Field(description="what is known about the probabilities' calibration")


class EhrPrediction(BaseModel):
    """One patient's answer."""

    id: str | None
    prediction_time: str
    age_days: float = Field(description="at the prediction time")
    last_event_days: float = Field(description="from the last event read to the prediction time")
    events: EhrCounts
    truncation: str = Field(description="`none` or `exact`: what was cut off has no influence on the answer")
    tasks: list[EhrTask]
    representation: list[float] | None = Field(None, description="if asked for")


class EhrResponse(Explained):
    """Predictions in the order of the request, and which model, dictionary and adapters made them."""

    backbone: str = Field(description="digest of network, dictionary and ontology: what adapters attach to")
    dictionary: str = Field(description="digest of the dictionary's file")
    batch_rows: int = Field(description="patients in the forward pass that served the first patient")
    patients: list[EhrPrediction]


def example_request() -> dict[str, Any]:
    """A request in the form the bundled model answers."""
    events = [
        {"time": "1958-04-02", "code": "MEDS_BIRTH"},
        {"time": "1958-04-02", "code": "Gender/F"},
        {"time": "2019-03-11T09:20:00", "code": "SNOMED/59621000"},
        {"time": "2021-06-01T10:05:00", "code": "LOINC/8480-6", "numeric_value": 151.0, "unit": "mm[Hg]"},
    ]
    patient = {"id": "a", "events": events}
    asked = {"horizons_days": [365, 730, 1825], "strict_same_day": True}
    return {"model": "motor-synthea", "prediction_time": "2022-01-01T00:00:00", "patients": [patient], **asked}
