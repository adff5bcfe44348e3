"""A store with one artifact under many names: what more loaded models cost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from benchmarks.server import ROOT
from export.artifact import DIGEST_LABEL, MANIFEST, Manifest, digest_of, open_artifact

COPIES = ROOT / "out" / "benchmarks" / "growth"


def copied(name: str, count: int) -> list[str]:
    """The names of `count` copies in the store COPIES, made afresh."""
    source = open_artifact(name).path
    shutil.rmtree(COPIES, ignore_errors=True)
    names = [f"{name}-{i:03}" for i in range(count)]
    for copy in names:
        _copy(source, COPIES / "models" / copy, copy)
    return names


def _copy(source: Path, folder: Path, name: str) -> None:
    target = Path(shutil.copytree(source, folder / "1"))
    manifest = Manifest.model_validate(json.loads((target / MANIFEST).read_bytes()))
    written = manifest.model_copy(update={"name": name, "version": "1"}).dump()
    (target / MANIFEST).write_bytes(written)
    record = yaml.safe_load((target / "model.yaml").read_text())
    record |= {"name": name, "version": "1", "labels": record["labels"] | {DIGEST_LABEL: digest_of(written)}}
    (target / "model.yaml").write_text(yaml.safe_dump(record))
    (folder / "latest").write_text("1")


def store_settings() -> dict[str, str]:
    """Environment of a server over the copies."""
    return {"BENTOML_HOME": str(COPIES)}
