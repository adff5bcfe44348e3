"""Answers for one patient: features of the time bins and task vectors in, survival, risk and hazards out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.motor.curves import Array, log2_hazards, median_time, survival
from models.motor.record import History
from models.motor.request import Patient
from models.motor.spec import DAY, EhrSpec
from models.motor.task_file import TaskFile

Features = npt.NDArray[np.floating[Any]]
HEAD_NOTE = (
    "the pretraining head's own rate, not calibrated for any population: compare it with local outcomes before use"
)


class HazardError(ArithmeticError):
    """The network made something else than rates."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task ready to be answered. weight [rank]; bias: a number, or one for each bin [b]."""

    name: str
    version: str | None
    digest: str | None
    outcome: str
    calibration: str
    weight: Array
    bias: Array

    @classmethod
    def of_adapter(cls, file: TaskFile, digest: str) -> Task:
        vector = np.array(file.vector)
        bias = np.full(len(file.time_bins), vector[-1])
        return cls(
            name=file.task,
            version=file.version,
            digest=digest,
            outcome=file.outcome,
            calibration=file.calibration,
            weight=vector[:-1],
            bias=bias,
        )

    @classmethod
    def of_head(cls, code: str, weight: Array, bias: Array) -> Task:
        return cls(
            name=code,
            version=None,
            digest=None,
            outcome=f"first {code} after the prediction time",
            calibration=HEAD_NOTE,
            weight=weight.astype(np.float64),
            bias=bias.astype(np.float64),
        )


def hazards_per_day(features: Features, tasks: Sequence[Task], spec: EhrSpec) -> Array:
    """features [b, r] -> rates [t, b]. Raises HazardError."""
    weight, bias = np.stack([task.weight for task in tasks]), np.stack([task.bias for task in tasks])
    with np.errstate(over="ignore"):
        rates = np.exp2(log2_hazards(features, weight, bias)) * (DAY / spec.unit_seconds)
    if not np.isfinite(rates).all():
        raise HazardError("a rate is not finite")
    return np.asarray(rates)


def answer_patient(
    patient: Patient,
    history: History,
    features: Features,
    tasks: Sequence[Task],
    horizons_days: Sequence[float],
    spec: EhrSpec,
) -> dict[str, Any]:
    """The JSON of one patient, without its representation. Raises HazardError."""
    rates = hazards_per_day(features, tasks, spec)
    starts = np.array(spec.edges_days[:-1], dtype=np.float64)
    surviving = survival(rates, starts, np.array(horizons_days))
    return {
        "id": patient.id,
        "prediction_time": patient.asked,
        "age_days": history.age_days,
        "last_event_days": history.last_event_days,
        "events": asdict(history.counts),
        "truncation": "exact" if history.counts.truncated else "none",
        "tasks": [_task(task, horizons_days, surviving[i], rates[i], starts, spec) for i, task in enumerate(tasks)],
    }


def _task(
    task: Task, horizons: Sequence[float], surviving: Array, rates: Array, starts: Array, spec: EhrSpec
) -> dict[str, Any]:
    median = median_time(rates, starts)
    return {
        "task": task.name,
        "source": "pretraining" if task.version is None else "adapter",
        "version": task.version,
        "digest": task.digest,
        "outcome": task.outcome,
        "horizons_days": list(horizons),
        "survival": surviving.tolist(),
        "risk": (1 - surviving).tolist(),
        "hazard": {"edges_days": spec.edges_days, "per_day": rates.tolist(), "unit": "1/day"},
        "median_days": median,
        "median": "not reached" if median is None else "reached",
        "calibration": task.calibration,
    }


def numbers(answer: dict[str, Any]) -> Array:
    """All numbers of an answer in a fixed order: survival, and log2 of the rates (0 becomes 2**-1000)."""
    found: list[float] = []
    for patient in answer["patients"]:
        for task in patient["tasks"]:
            found += task["survival"]
            found += np.log2(np.maximum(task["hazard"]["per_day"], 2.0**-1000)).tolist()
    return np.array(found, dtype=np.float64)
