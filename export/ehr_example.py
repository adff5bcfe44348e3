"""`example.json` of a record model: a made-up patient, with the answer the exported graph gave when pressed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from export.ehr_parity import Checked, GraphRunner
from models.motor.answers import Task, answer_patient
from models.motor.inputs import serving_tensors
from models.motor.record import read_history
from models.motor.request import read_request

TASKS = 4  # of the pretraining head, spread over all
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}  # of survival and of log2 hazards, on another machine


def make_example(
    name: str, request: dict[str, Any], run: GraphRunner, checked: Checked, codes: Sequence[str]
) -> dict[str, Any]:
    """The request with its answer."""
    chosen = sorted({len(codes) * i // TASKS for i in range(TASKS)})
    asked = {"model": name, **request, "tasks": [codes[i] for i in chosen]}
    head = checked.head
    tasks = [Task.of_head(codes[i], head.weight[i], head.bias[i]) for i in chosen]
    return {
        "request": asked,
        "response": {"patients": answers(asked, tasks, run, checked)},
        "tolerance": TOLERANCE,
    }


def answers(request: dict[str, Any], tasks: list[Task], run: GraphRunner, checked: Checked) -> list[dict[str, Any]]:
    """The pipeline's answer to a request, one entry a patient."""
    read = read_request(request, max_patients=len(request["patients"]))
    found = []
    for patient in read.patients:
        history = read_history(patient.record, checked.reading, patient.at, strict=read.strict, field=patient.field)
        made = run(serving_tensors(history.positions, aged=checked.spec.aged))
        found.append(answer_patient(patient, history, made["features"][0], tasks, read.horizons_days, checked.spec))
    return found
