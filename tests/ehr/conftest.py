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


def _load(home: Path) -> EhrModel:
    """The model without its adapters: this process has another store."""
    artifact = read_artifact(home / "models" / "motor-tutorial" / "1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("services.ehr_tasks.attached_adapters", lambda backbone: [])
        return EhrFamily().load(artifact, Settings(max_delay_ms=0))


@pytest.fixture
async def ehr_model(ehr_home: Path) -> AsyncIterator[EhrModel]:
    """The model in this process."""
    model = _load(ehr_home)
    yield model
    await model.close()


@pytest.fixture(scope="session")
def ehr_refuser(ehr_home: Path) -> EhrModel:
    """One for all tests whose requests never come as far as the network: it belongs to no event loop."""
    return _load(ehr_home)
