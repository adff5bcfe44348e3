"""A model of the tutorial checkpoint in this process."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

from export.artifact import read_artifact
from services.core.settings import Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own, when its services are imported
    from services.ehr import EhrFamily, EhrModel


@pytest.fixture
async def ehr_model(ehr_home: Path, monkeypatch: pytest.MonkeyPatch) -> EhrModel:
    """The model in this process, without its adapters: this process has another store."""
    monkeypatch.setattr("services.ehr_tasks.attached_adapters", lambda backbone: [])
    artifact = read_artifact(ehr_home / "models" / "motor-tutorial" / "1")
    return EhrFamily().load(artifact, Settings(max_delay_ms=0))


@pytest.fixture
def private_home(ehr_home: Path, tmp_path: Path) -> Path:
    """A copy of the store to change."""
    copy: Path = shutil.copytree(ehr_home, tmp_path / "home", symlinks=True)
    return copy
