"""Fixtures: one tiny model and its texts for every file; one thread, because sums must not depend on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from one_thread import one_thread  # noqa: F401 (a fixture of this folder)
from prune_jobs import MakeJob
from tiny_models import tiny_folder, tiny_text


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model` (bfloat16, tied head), `calibration.txt` and `evaluation.txt`. Shared: never change it."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_folder(folder / "model", torch.bfloat16, tie_word_embeddings=True)
    tiny_text(folder / "calibration.txt", slice(40, 80))
    tiny_text(folder / "evaluation.txt", slice(80, 120))
    return folder


@pytest.fixture(scope="session")
def make_job(tiny: Path) -> MakeJob:
    return MakeJob(tiny)
