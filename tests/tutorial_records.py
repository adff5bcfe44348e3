"""The official tutorial checkpoint with its expected outputs, and records to ask it about."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

GOLDEN = Path(__file__).parent / "golden" / "motor" / "official_tutorial_checkpoint_v1"
MODEL = "motor-tutorial"
ROUTE = "/v1/ehr/predict"
BIRTH = "SNOMED/184099003"
TASK = "ATC/N"
CASE: dict[str, Any] = json.loads((GOLDEN / "case.json").read_bytes())
STARTS = (0.0, 9676800.0, 21081600.0, 39830400.0)  # seconds


def expected(subject: int) -> dict[str, npt.NDArray[Any]]:
    """The published program's representations [n, 64], log2 hazards [n, 4, 64] and ages in days at every position."""
    found = load_file(GOLDEN / "expected.safetensors")
    outputs = {name: found[f"output.{subject}.{name}"] for name in ("representations", "log2_hazard")}
    return outputs | {"ages": found[f"input.{subject}.ages"]}


def events_of(patient: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in event.items() if v is not None} for event in patient["events"]]


def record(place: int = 0, **changed: Any) -> dict[str, Any]:
    """One of the tutorial's patients as a request's patient."""
    return {"id": "somebody", "events": events_of(CASE["patients"][place])} | changed


def request(*patients: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A good request for one task."""
    asked = {"model": MODEL, "prediction_time": "1995-01-01", "patients": list(patients or [record()])}
    return asked | {"tasks": [TASK], "horizons_days": [365]} | changed


def press_tutorial(folder: Path) -> None:
    """Press the checkpoint with its ontology, and store two versions of one adapter beside it."""
    from export.ehr import EhrJob, press
    from export.ehr_adapter import store_adapter
    from export.ehr_source import ONTOLOGY, dump_ontology

    shutil.copytree(GOLDEN, folder)
    (folder / ONTOLOGY).write_bytes(dump_ontology(CASE["ontology_parents"]))
    pressed = press(EhrJob(folder=folder, name=MODEL, birth_codes=(BIRTH, "MEDS_BIRTH")))
    for version in ("1", "2"):
        path = folder / f"nervous.{version}.adapter.json"
        path.write_bytes(adapter(pressed.backbone, version).dump())
        store_adapter(path)


def adapter(backbone: str, version: str = "1", **changed: Any) -> Any:
    """The pretraining head's own vector of TASK as an adapter; version 2 doubles the rate."""
    from models.motor.task_file import TaskFile

    weights = load_file(GOLDEN / "model.safetensors")
    tasks = json.loads((GOLDEN / "config.json").read_bytes())["task_config"]["task_kwargs"]["pretraining_task_info"]
    place = [code for code, _ in tasks].index(TASK)
    vector = np.append(
        weights["task_model.task_layer.weight"][place],
        weights["task_model.task_layer.bias"][place] + (version == "2"),
    )
    fields: dict[str, Any] = {
        "task": "nervous",
        "version": version,
        "backbone": backbone,
        "time_bins": STARTS,
        "vector": tuple(vector.astype(float).tolist()),
        "outcome": "first drug for the nervous system",
        "codes": (TASK,),
        "l2": 0.0,
        "calibration": "a copy of the pretraining head, for tests",
    }
    return TaskFile(**{**fields, **changed})
