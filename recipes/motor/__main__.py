"""Pretrain MOTOR on a MEDS folder and fit task adapters; ends in an official-layout folder and its export command."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from recipes.common import load_state
from recipes.motor.adapters import write_adapters
from recipes.motor.official import write_checkpoint
from recipes.motor.prepare import prepare
from recipes.motor.pretrain import STATE, configuration, pretrain, untrained
from recipes.motor.records import RecordError
from recipes.motor.settings import Settings, SettingsError, read_settings


def main(arguments: list[str] | None = None) -> int:
    """Train, write the folder, print losses and the export command. 2: settings or records are unusable."""
    parser = argparse.ArgumentParser(prog="python -m recipes.motor", description=__doc__)
    parser.add_argument("settings", type=Path, help="TOML file, e.g. recipes/motor/synthetic_ehr.toml")
    parser.add_argument("--data", type=Path, default=Path("data/ehr"), help="MEDS folder with data/ and metadata/")
    parser.add_argument("--out", type=Path, required=True, help="folder; a run that was interrupted there goes on")
    parser.add_argument("--until", type=int, help="stop after this step; the same command without it goes on")
    parser.add_argument("--threads", type=int, default=1, help="threads; with another number sums round otherwise")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    try:
        train(read_settings(given.settings), given.data, given.out, until=given.until)
    except (SettingsError, RecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def train(settings: Settings, data: Path, out: Path, *, until: int | None = None) -> Path | None:
    """The whole run; returns the checkpoint's folder, None if it stopped before its last step."""
    began, state = time.process_time(), out / STATE
    if (saved := load_state(state)) is not None and saved["settings"] != repr(settings):
        raise SettingsError("--out holds a run with other settings; name another folder, or remove its state.pt")
    prepared = prepare(data, settings)
    config = configuration(settings.network, prepared.tasks, settings.tasks.rank, len(prepared.dictionary["vocab"]))
    network = untrained(config, prepared.tasks, settings.training.seed)
    trained = pretrain(settings, network, prepared.train_histories, prepared.tuning_histories, state, until)
    if trained is None:
        print(f"stopped after step {until} of {settings.training.steps}; the same command without --until goes on")
        return None
    for step, loss, tuning in trained.curve:
        print(f"step {step:5d}  training loss {loss:.4f}  tuning loss {tuning:.4f}")
    folder = out / settings.name
    write_checkpoint(folder, trained.network, prepared.dictionary, prepared.tasks.info, prepared.parents)
    files = write_adapters(folder, trained.network, prepared, settings)
    print(f"CPU seconds of this command: {time.process_time() - began:.0f}")
    print(export_commands(settings, folder, files))
    return folder


def export_commands(settings: Settings, folder: Path, adapters: Sequence[Path]) -> str:
    """What presses the checkpoint, and then its adapters."""
    files = " ".join(shlex.quote(str(path)) for path in adapters)
    return (
        f"pressroom export ehr {shlex.quote(str(folder))} --name {settings.name.replace('_', '-')}\n"
        f"pressroom export ehr-adapter {files}"
    )


if __name__ == "__main__":
    sys.exit(main())
