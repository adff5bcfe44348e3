"""Pruning jobs that take seconds."""

from __future__ import annotations

from pathlib import Path

from export.prune_plan import PruneJob


class MakeJob:
    """make_job(out, **settings) -> a job on the tiny model with few short windows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, out: Path, **settings: object) -> PruneJob:
        few: dict[str, object] = {
            "model": str(self.folder / "model"),
            "calibration": self.folder / "calibration.txt",
            "evaluation": self.folder / "evaluation.txt",
            "windows": 4,
            "tokens": 32,
            "evaluation_windows": 4,
            "speed": False,
        }
        return PruneJob(out=out, **(few | settings))  # type: ignore[arg-type]
