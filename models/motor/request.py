"""A request for predictions, read and checked: JSON in, records out.

Refusals name the place (`patients[0].events[17].numeric_value`) and what was expected there, never what was sent: it
may be anybody's health record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from models.errors import InputError
from models.motor.fields import MOST_TEXT, STAMP_HINT, code, finite, read_stamp, same_clock, text
from models.motor.record import Record
from models.motor.vocabulary import Event

Json = Mapping[str, Any]
ReadParquet = Callable[[Any], list["Raw"]]

MOST_HORIZONS, MOST_TASKS = 64, 256
LONGEST_HORIZON_DAYS = 200 * 365.25
DEFAULT_HORIZONS = (365.0, 730.0, 1825.0)
FIELDS = (
    "model", "version", "prediction_time", "patients", "events_parquet", "tasks", "horizons_days",
    "return_representation", "strict_same_day",
)  # fmt: skip
_PATIENT, _EVENT = ("id", "birth", "prediction_time", "events"), ("time", "code", "numeric_value", "text_value", "unit")
_PATIENT_KEYS, _EVENT_KEYS = frozenset(_PATIENT), frozenset(_EVENT)


@dataclass(frozen=True)
class Raw:
    """One patient before the prediction time is known: id, and functions of the moment that make the record.

    record  the moment as it was sent (with its offset, if any), the patient's place -> the record in that clock
    """

    id: str | None
    prediction_time: Any
    record: Callable[[datetime, str], Record]


@dataclass(frozen=True, kw_only=True)
class Patient:
    """One patient of a request: `at` is without offset, in the record's own clock; `asked` is the time as sent."""

    id: str | None
    record: Record
    at: datetime
    asked: str
    field: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A whole request. tasks: None if it names none."""

    patients: list[Patient]
    tasks: list[str] | None
    horizons_days: tuple[float, ...]
    representation: bool
    strict: bool


def read_request(document: Json, *, max_patients: int, read_parquet: ReadParquet | None = None) -> Asked:
    """Read and check a request. Raises InputError."""
    if document.keys() - set(FIELDS):
        raise InputError(
            "invalid_request", "the request has a field it does not know", hint=f"known: {', '.join(FIELDS)}"
        )
    raw = _raw_patients(document, read_parquet)
    if not raw:
        raise InputError("empty_batch", "the request has no patients", field="patients", hint="send at least one")
    if len(raw) > max_patients:
        raise InputError(
            "too_many_rows", f"{len(raw)} patients came, the limit is {max_patients}", field="patients",
            hint="split the request",
        )  # fmt: skip
    return Asked(
        tasks=_tasks(document.get("tasks")),
        horizons_days=_horizons(document.get("horizons_days")),
        representation=_flag(document, "return_representation"),
        strict=_flag(document, "strict_same_day"),
        patients=[_patient(one, document, f"patients[{i}]") for i, one in enumerate(raw)],
    )


def _raw_patients(document: Json, read_parquet: ReadParquet | None) -> list[Raw]:
    patients, parquet = document.get("patients"), document.get("events_parquet")
    if parquet is not None and patients is None and read_parquet is not None:
        return read_parquet(parquet)
    if parquet is not None or not isinstance(patients, list):
        raise InputError("invalid_request", "expected a list of patients, or else events_parquet", field="patients")
    return [_raw_patient(entry, f"patients[{i}]") for i, entry in enumerate(patients)]


def _raw_patient(entry: Any, field: str) -> Raw:
    if not isinstance(entry, dict) or entry.keys() - _PATIENT_KEYS:
        raise InputError("invalid_request", "expected an object", field=field, hint=f"known: {', '.join(_PATIENT)}")
    events = entry.get("events")
    if not isinstance(events, list):
        raise InputError("invalid_request", "expected a list of events", field=f"{field}.events")

    def record(at: datetime, field: str) -> Record:
        sent = entry.get("birth")
        birth = None if sent is None else _birth(sent, at, f"{field}.birth")
        return Record(events=_events(events, at, f"{field}.events"), birth=birth)

    return Raw(text(entry.get("id"), f"{field}.id"), entry.get("prediction_time"), record)


def _patient(raw: Raw, document: Json, field: str) -> Patient:
    sent, place = raw.prediction_time, f"{field}.prediction_time"
    if sent is None:
        sent, place = document.get("prediction_time"), "prediction_time"
    if sent is None:
        raise InputError(
            "invalid_request", "there is no prediction time", field=place, hint="send prediction_time, ISO 8601"
        )
    at = read_stamp(sent, place)
    return Patient(id=raw.id, record=raw.record(at, field), at=at.replace(tzinfo=None), asked=sent, field=field)


def _birth(value: Any, at: datetime, field: str) -> datetime:
    """A mere date is a day of the record's clock, whether its times have offsets or not."""
    stamp = read_stamp(value, field)
    return stamp if len(value) == 10 else same_clock(stamp, at, field)


def _events(entries: list[Any], at: datetime, field: str) -> list[Event | None]:
    found = []
    stamps: dict[str, datetime] = {}  # many events of a record share their moment
    for i, entry in enumerate(entries):
        try:
            found.append(_event(entry, at, stamps))
        except InputError as fault:
            place = f"{field}[{i}]" + (f".{fault.field}" if fault.field else "")
            raise InputError(fault.code, fault.message, field=place, hint=fault.hint) from None
    return found


def _event(entry: Any, at: datetime, stamps: dict[str, datetime]) -> Event | None:
    """One event, or None for a static one. Raises InputError with the place within the event."""
    if not isinstance(entry, dict) or entry.keys() - _EVENT_KEYS:
        raise InputError("invalid_request", "expected an event", hint=f"known: {', '.join(_EVENT)}")
    if "time" not in entry:
        raise InputError("invalid_request", "the event has no time", field="time", hint=STAMP_HINT)
    time = entry["time"]
    made = Event(
        at if time is None else _moment(time, at, stamps),
        code(entry.get("code"), "code"),
        finite(entry.get("numeric_value"), "numeric_value"),
        text(entry.get("text_value"), "text_value"),
        text(entry.get("unit"), "unit"),
    )
    return None if time is None else made


def _moment(value: Any, at: datetime, stamps: dict[str, datetime]) -> datetime:
    """An event's time in the record's clock; `stamps` holds those read before."""
    found = stamps.get(value) if isinstance(value, str) else None
    if found is None:
        found = stamps[value] = same_clock(read_stamp(value, "time"), at, "time")
    return found


def _tasks(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or len(value) > MOST_TASKS:
        raise InputError("invalid_request", f"expected a list of 1 to {MOST_TASKS} tasks", field="tasks")
    for i, task in enumerate(value):
        if not isinstance(task, str) or not 0 < len(task) <= MOST_TEXT:
            raise InputError("invalid_request", "expected a task's name", field=f"tasks[{i}]")
    if len(set(value)) != len(value):
        raise InputError("invalid_request", "a task is named twice", field="tasks")
    return value


def _horizons(value: Any) -> tuple[float, ...]:
    if value is None:
        return DEFAULT_HORIZONS
    if not isinstance(value, list) or not 0 < len(value) <= MOST_HORIZONS:
        raise InputError(
            "invalid_request", f"expected a list of 1 to {MOST_HORIZONS} numbers of days", field="horizons_days"
        )
    found = []
    for i, one in enumerate(value):
        number = finite(one, f"horizons_days[{i}]")
        if number is None or not 0 < number <= LONGEST_HORIZON_DAYS:
            raise InputError(
                "invalid_request", f"expected days above 0, at most {LONGEST_HORIZON_DAYS:g}",
                field=f"horizons_days[{i}]",
            )  # fmt: skip
        found.append(number)
    return tuple(found)


def _flag(document: Json, name: str) -> bool:
    value = document.get(name, False)
    if not isinstance(value, bool):
        raise InputError("invalid_request", "expected true or false", field=name)
    return value
