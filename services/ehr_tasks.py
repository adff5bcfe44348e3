"""The tasks a record model answers: its pretraining head's codes, and the adapters stored for its backbone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from export.artifact import Artifact, ArtifactError, attached_adapters
from models.errors import InputError
from models.motor.answers import Task
from models.motor.curves import Array
from models.motor.request import MOST_TASKS
from models.motor.spec import EhrSpec
from models.motor.task_file import TaskFile, TaskFileError, read_task_file

HEAD_FILE, TASKS_FILE = "head.safetensors", "tasks.json"


class Tasks:
    """Found by name, or `name:version` for adapters; without a version the adapter stored last answers."""

    def __init__(self, codes: Sequence[str], weight: Array, bias: Array, adapters: Sequence[Task]) -> None:
        self._places = {code: i for i, code in enumerate(codes)}
        self._weight, self._bias = weight, bias
        self._adapters: dict[str, Task] = {}
        self._newest: dict[str, Task] = {}
        for task in adapters:  # oldest first
            self._adapters[f"{task.name}:{task.version}"] = task
            self._newest[task.name] = task

    def find(self, names: Sequence[str] | None) -> list[Task]:
        """The named tasks, or the default ones. Raises InputError naming the place of an unknown one."""
        if names is not None:
            return [self._find(name, f"tasks[{i}]") for i, name in enumerate(names)]
        if self._newest:
            return list(self._newest.values())
        if len(self._places) > MOST_TASKS:
            raise InputError(
                "invalid_request", f"the model has {len(self._places)} tasks: name the ones you want", field="tasks",
                hint=f"at most {MOST_TASKS} in one request",
            )  # fmt: skip
        return [self._of_head(code) for code in self._places]

    def describe(self) -> dict[str, Any]:
        """What GET /v1/models tells of them."""
        codes = list(self._places)
        shown = ("name", "version", "digest", "outcome", "calibration")
        listed = [{field: getattr(task, field) for field in shown} for task in self._adapters.values()]
        return {"adapters": listed, "pretraining_tasks": codes[:MOST_TASKS], "pretraining_tasks_total": len(codes)}

    def _find(self, name: str, field: str) -> Task:
        if name in self._places:
            return self._of_head(name)
        found = self._adapters.get(name) or self._newest.get(name)
        if found is None:
            raise InputError(
                "task_not_found", "the model has no such task", field=field,
                hint="GET /v1/models lists adapters and pretraining codes",
            )  # fmt: skip
        return found

    def _of_head(self, code: str) -> Task:
        place = self._places[code]
        return Task.of_head(code, self._weight[place], self._bias[place])


def open_tasks(artifact: Artifact, spec: EhrSpec) -> Tasks:
    """The artifact's own tasks and every stored adapter of its backbone. Raises ArtifactError."""
    head = load_file(artifact.file(HEAD_FILE))
    adapters = [_adapter(digest, raw, spec) for digest, raw in attached_adapters(spec.backbone)]
    return Tasks(artifact.read_json(TASKS_FILE), head["weight"], head["bias"], adapters)


def _adapter(digest: str, raw: bytes, spec: EhrSpec) -> Task:
    try:
        file = read_task_file(raw)
    except TaskFileError as fault:
        raise ArtifactError(f"an adapter of this backbone cannot be read: {fault}", "store the adapter again") from None
    if not _fits(file, spec):
        raise ArtifactError(
            f"adapter {file.task}:{file.version} has other bins or another rank than its backbone",
            "fit it on this backbone's features, and store it again",
        )
    return Task.of_adapter(file, digest)


def _fits(file: TaskFile, spec: EhrSpec) -> bool:
    starts = np.array(spec.time_bins) * spec.unit_seconds
    same = len(file.time_bins) == len(starts) and np.allclose(file.time_bins, starts)
    return bool(same) and len(file.vector) == spec.rank + 1
