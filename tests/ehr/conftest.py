"""A model of the tutorial checkpoint in this process."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from export.artifact import read_artifact
from services.core.settings import Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # BentoML's own, when its services are imported
    from services.ehr import EhrFamily, EhrModel


@pytest.fixture
async def ehr_model(ehr_home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EhrModel]:
    """The model in this process, without its adapters: this process has another store."""
    monkeypatch.setattr("services.ehr_tasks.attached_adapters", lambda backbone: [])
    artifact = read_artifact(ehr_home / "models" / "motor-tutorial" / "1")
    model = EhrFamily().load(artifact, Settings(max_delay_ms=0))
    yield model
    await model.close()
