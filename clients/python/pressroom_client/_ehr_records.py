"""MEDS events as people have them -> patients on the wire.

In   a pandas frame or a pyarrow table with the columns subject_id, time, code and perhaps numeric_value, text_value,
     unit (others are ignored); the path or the bytes of a MEDS parquet file, sent as it is; or, for one patient, a list
     of mappings with time, code, ...
Out  the request's `patients`, in ascending order of subject, or its `events_parquet`
Values are passed on, not judged: the server's rules are in docs/ehr.md.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

Moment = str | date | datetime | np.datetime64
Moments = Moment | Mapping[Any, Moment]  # one for all, or one a subject

NEEDED, OPTIONAL = ("subject_id", "time", "code"), ("numeric_value", "text_value", "unit")


def records_wire(events: Any, prediction_time: Moments, births: Mapping[Any, Moment] | None) -> dict[str, Any]:
    """The request's fields that say who and when; UsageError naming a missing or contradicting argument."""
    several = isinstance(prediction_time, Mapping)
    asked = {} if several else {"prediction_time": moment(prediction_time, "prediction_time")}
    if isinstance(events, (bytes, bytearray, str, Path)):
        if several or births:
            hint = "read the file into a frame, whose patients may each have their own"
            raise UsageError("a parquet file takes one prediction_time and no births", field="events", hint=hint)
        return {**asked, "events_parquet": base64.b64encode(_file(events)).decode()}
    patients = _patients(events)
    if several:
        for patient in patients:
            patient["prediction_time"] = _of(prediction_time, patient["id"], "prediction_time")
    for patient in patients if births else ():
        patient["birth"] = _of(births, patient["id"], "births", needed=False)
    return {**asked, "patients": [{name: value for name, value in p.items() if value is not None} for p in patients]}


def moment(value: Any, field: str) -> str:
    """ISO 8601; a date stays a date, for the server to read as its midnight."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise UsageError(f"{field} is NaT", field=field)
        is_date = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D")
        return str(value.astype("datetime64[D]" if is_date else "datetime64[us]"))
    if getattr(value, "nanosecond", 0):
        return moment(value.floor("us"), field)  # a pandas timestamp; the wire knows microseconds
    if isinstance(value, date):
        return value.isoformat()
    raise UsageError(f"{field} is a {type(value).__name__}, expected a date, a datetime or ISO 8601 text", field=field)


def _of(given: Any, subject: str | None, field: str, *, needed: bool = True) -> str | None:
    for key, value in given.items():
        if str(key) == subject:
            return moment(value, field)
    if needed:
        raise UsageError(f"{field} has none for some subjects", field=field, hint="give one for every subject_id")
    return None


def _file(events: bytes | bytearray | str | Path) -> bytes:
    if isinstance(events, (bytes, bytearray)):
        return bytes(events)
    try:
        return Path(events).read_bytes()
    except OSError as error:
        raise UsageError(f"the events file cannot be read: {error.strerror}", field="events") from error


def _patients(events: Any) -> list[dict[str, Any]]:
    if _is_frame(events, "pandas"):
        return _grouped({name: _pandas_column(events[name]) for name in _chosen(list(events.columns))})
    if _is_frame(events, "pyarrow"):
        return _grouped({name: events.column(name).to_pylist() for name in _chosen(events.column_names)})
    if isinstance(events, Sequence) and all(isinstance(event, Mapping) for event in events):
        return [{"id": None, "events": [_plain(event) for event in events]}]
    kind = type(events).__name__
    hint = "a pandas frame or pyarrow table in MEDS layout, a parquet file, or a list of mappings for one patient"
    raise UsageError(f"events is a {kind}", field="events", hint=hint)


def _is_frame(events: Any, library: str) -> bool:
    """Without importing a library that may not be there: whoever holds its frame has imported it."""
    return type(events).__module__.split(".")[0] == library and hasattr(events, "columns")


def _chosen(names: Iterable[Any]) -> list[str]:
    there = [str(name) for name in names]
    if missing := [name for name in NEEDED if name not in there]:
        hint = "MEDS layout: subject_id, time, code, and perhaps numeric_value, text_value, unit"
        raise UsageError(f"the events have no column {', '.join(missing)}", field="events", hint=hint)
    return [name for name in (*NEEDED, *OPTIONAL) if name in there]


def _pandas_column(column: pd.Series[Any]) -> list[Any]:
    """Plain values; whatever pandas takes for missing is None."""
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return values


def _grouped(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """One patient a subject; a subject's rows keep their order."""
    found: dict[Any, list[dict[str, Any]]] = {}
    names = [name for name in columns if name != "subject_id"]
    rows = zip(columns["subject_id"], *(columns[name] for name in names), strict=True)
    for subject, *values in rows:
        found.setdefault(subject, []).append(_plain(dict(zip(names, values, strict=True))))
    if None in found:
        raise UsageError("some events have no subject_id", field="events", hint="give every row its subject_id")
    return [{"id": str(subject), "events": found[subject]} for subject in sorted(found)]


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event without its empty fields; `time` stays even when it is empty (a static measurement)."""
    time = event.get("time")
    stated = {name: value for name, value in event.items() if value is not None and name != "time"}
    return {"time": None if time is None else moment(time, "time"), **stated}
