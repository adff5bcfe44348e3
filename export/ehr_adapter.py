"""Task adapters in the model store: small versioned files, each with the digest of the backbone it belongs to.

The tag is `TASK.<first 12 digits of the backbone's digest>:VERSION`, so that two backbones may both have a task
`death`. A served backbone takes every adapter of its digest; no backbone has to be pressed again for a new task.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import bentoml
from bentoml._internal.models import ModelStore

from export.artifact import (
    ADAPTER_FAMILY,
    ADAPTER_FILE,
    BACKBONE_LABEL,
    DIGEST_LABEL,
    FAMILY_LABEL,
    digest_of,
)
from export.errors import OptionError, StoreError
from export.store import ARCHITECTURE_LABEL, VERDICT_LABEL, Stored, check_tag, locked, move, point_latest, store_root
from models.motor.task_file import TaskFile, TaskFileError, read_task_file


@dataclass(frozen=True)
class Adapter:
    """One adapter in the store."""

    file: TaskFile
    stored: Stored


def store_adapter(path: Path) -> Adapter:
    """Check a `TASK.adapter.json` and store it. Raises OptionError or StoreError; then nothing was stored."""
    try:
        raw = path.read_bytes()
        file = read_task_file(raw)
    except OSError:
        raise OptionError(f"{path.name} cannot be read", "give a TASK.adapter.json") from None
    except TaskFileError as fault:
        raise OptionError(f"{path.name}: {fault}", "docs/ehr.md describes the format") from None
    name = tag_name(file)
    check_tag(name, file.version)
    target, digest = store_root() / name / file.version, digest_of(raw)
    with locked():
        if (target / ADAPTER_FILE).exists():
            if (target / ADAPTER_FILE).read_bytes() == raw:
                return Adapter(file, Stored(name, file.version, digest, target, unchanged=True))
            raise StoreError(
                f"{name}:{file.version} exists and holds something else", "give the changed adapter another version"
            )
        _write(file, raw, name, target)
    return Adapter(file, Stored(name, file.version, digest, target, unchanged=False))


def tag_name(file: TaskFile) -> str:
    """The adapter's name in the store."""
    return f"{file.task}.{file.backbone.removeprefix('sha256:')[:12]}"


def _write(file: TaskFile, raw: bytes, name: str, target: Path) -> None:
    labels = {DIGEST_LABEL: digest_of(raw), FAMILY_LABEL: ADAPTER_FAMILY, BACKBONE_LABEL: file.backbone}
    labels |= {ARCHITECTURE_LABEL: "motor-task", VERDICT_LABEL: "ok"}
    os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")  # storing must not call home
    with tempfile.TemporaryDirectory(prefix=".pressing-", dir=store_root().parent) as beside:
        with bentoml.models.create(f"{name}:{file.version}", labels=labels, _model_store=ModelStore(beside)) as model:
            (Path(model.path) / ADAPTER_FILE).write_bytes(raw)
        complete = Path(beside) / name / file.version
        complete.chmod(0o755)  # BentoML copies the private mode of its temporary directory
        move(complete, target)
    point_latest(target)
