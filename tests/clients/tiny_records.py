"""The tiny service's record model: everybody's hazard of everything is one in 1,000 days, halved after 500 of them."""

from __future__ import annotations

import base64
import io
import json
import math
from typing import Any

import pyarrow.parquet as pq
from tiny_service import DIGEST, STAGES, RefusalError

Json = dict[str, Any]
ROUTES = ("POST /v1/ehr/predict",)
STRANGE = "strange"  # a task whose answer lacks what it promises
EDGES, RATES = [0.0, 500.0, None], [0.001, 0.0005]


def answer(request: Json, request_id: str) -> Json:
    """The native answer."""
    patients = request.get("patients") or _of_file(request["events_parquet"])
    for i, patient in enumerate(patients):
        if not patient["events"]:
            raise RefusalError("history_empty", 422, "INVALID_ARGUMENT", field=f"patients[{i}].events")
    head = {"model": "recorder", "version": "1", "digest": DIGEST, "backbone": DIGEST, "dictionary": DIGEST}
    head |= {"request_id": request_id, "timings": STAGES, "batch_rows": len(patients)}
    if request.get("tasks") == [STRANGE]:
        return head
    return head | {"patients": [_patient(patient, request) for patient in patients]}


def dumped(body: bytes, request_id: str) -> bytes:
    return json.dumps(answer(json.loads(body), request_id)).encode()


def _of_file(encoded: str) -> list[Json]:
    subjects = pq.read_table(io.BytesIO(base64.b64decode(encoded))).column("subject_id").to_pylist()
    return [{"id": str(one), "events": [{}] * subjects.count(one)} for one in sorted(set(subjects))]


def _patient(patient: Json, request: Json) -> Json:
    received = len(patient["events"])
    zeros = ("dropped_future", "dropped_same_day", "without_time", "duplicates", "unknown", "repeated", "truncated")
    vector = {"representation": [0.5, -1.0]} if request.get("return_representation") else {}
    return {
        "id": patient.get("id"),
        "prediction_time": patient.get("prediction_time") or request["prediction_time"],
        "age_days": 20000.0,
        "last_event_days": 1.5,
        "events": {"received": received, "used": received, **dict.fromkeys(zeros, 0)},
        "truncation": "none",
        "tasks": [_task(task, request) for task in request.get("tasks") or ["death"]],
        **vector,
    }


def _task(task: str, request: Json) -> Json:
    days = request.get("horizons_days") or [365.0]
    survival = [math.exp(-0.001 * min(day, 500) - 0.0005 * max(day - 500, 0)) for day in days]
    return {
        "task": task,
        "source": "adapter",
        "version": "1",
        "digest": DIGEST,
        "outcome": f"first {task}",
        "horizons_days": days,
        "survival": survival,
        "risk": [1 - value for value in survival],
        "hazard": {"edges_days": EDGES, "per_day": RATES, "unit": "1/day"},
        "median_days": None if task == "never" else 886.3,
        "median": "not reached" if task == "never" else "reached",
        "calibration": "none known",
    }
