"""The recipe's command line; see the package."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch

from export.errors import ExportError
from models.forecasting.architecture import ConfigError
from recipes.forecasting.settings import Settings, SettingsError, read_settings
from recipes.forecasting.start import begin, configure
from recipes.forecasting.train import Progress, Run, errors, fit
from recipes.forecasting.windows import count_columns, read_windows

CHECKPOINT, DOCUMENT = "checkpoint.pth", "checkpoint.json"


def main(arguments: list[str] | None = None) -> int:
    """Train, write checkpoint and document, print test errors and the export command. 2: the settings are unusable."""
    parser = argparse.ArgumentParser(prog="python -m recipes.forecasting", description=__doc__)
    parser.add_argument("settings", type=Path, help="TOML file, e.g. recipes/forecasting/itransformer.toml")
    parser.add_argument("--out", type=Path, required=True, help="folder; a run that was interrupted there goes on")
    parser.add_argument("--until", type=int, help="stop after this epoch; the same command without it goes on")
    parser.add_argument("--threads", type=int, default=1, help="threads; with another number sums round otherwise")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    try:
        settings = read_settings(given.settings)
        train(settings, given.out, until=given.until)
    except (SettingsError, ConfigError, ExportError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def train(settings: Settings, folder: Path, *, until: int | None = None) -> dict[str, Any]:
    """The whole run; returns the document written beside the checkpoint."""
    record, config, run = prepare_run(settings, folder)
    before = errors(run, "validation", "mse", "mae", "loss") if settings.backbone else {}
    found = fit(run, start=before.get("loss", math.inf), until=until)
    test = errors(run, "test", "mse", "mae")
    assert record.restore is not None
    state = record.restore(run.network.state_dict(), config)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / CHECKPOINT)
    document = describe(settings, run, config.official(), found, before, test)
    (folder / DOCUMENT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"best epoch {found.best_epoch} of {found.epoch}: test MSE {test['mse']:.4f}, MAE {test['mae']:.4f}")
    print(export_command(settings, folder))
    return document


def prepare_run(settings: Settings, folder: Path) -> tuple[Any, Any, Run]:
    """Architecture, configuration and run of some settings."""
    record, config = configure(settings, count_columns(settings.data))
    windows = read_windows(settings.data, config.look_back, config.horizon)
    network = begin(settings, record, config)
    reads = record.takes_marks and record.reads_marks(config)
    plan = settings.training
    run = Run(record=record, network=network, windows=windows, plan=plan, folder=folder, reads_marks=reads)
    return record, config, run


def describe(
    settings: Settings,
    run: Run,
    official: dict[str, Any],
    found: Progress,
    before: dict[str, float],
    test: dict[str, float],
) -> dict[str, Any]:
    """What the checkpoint does not hold: hyper-parameters, scaler, how it was trained, what it achieved."""
    windows = run.windows
    plan = {name: value for name, value in vars(settings.training).items() if value is not None}
    return {
        "system": settings.architecture,
        "config": official,
        "parameters": sum(p.numel() for p in run.network.parameters()),
        "data": {
            "file": windows.table.file,
            "columns": list(windows.table.columns),
            "scaler_fit_rows": list(windows.split.train),
            "scaler_mean": windows.scaler.mean.tolist(),
            "scaler_std": windows.scaler.std.tolist(),
            "test_windows": len(windows.parts["test"]),
        },
        "metrics_test": {name: round(value, 6) for name, value in test.items()},
        **({"validation_of_backbone": {n: round(v, 6) for n, v in before.items()}} if before else {}),
        "training": {"recipe": settings.name, **plan, "kept_epoch": found.best_epoch, "history": found.history},
    }


def export_command(settings: Settings, folder: Path) -> str:
    """How the checkpoint is pressed."""
    csv = os.path.relpath(settings.data.csv)
    around = f" --backbone {settings.backbone_artifact}" if settings.backbone_artifact else ""
    return (
        f"pressroom export forecast {settings.architecture} {folder / CHECKPOINT} --name {settings.name} \\\n"
        f"    --config {folder / DOCUMENT} --data {csv} --split {settings.data.split}{around} --evaluate"
    )


if __name__ == "__main__":
    sys.exit(main())
