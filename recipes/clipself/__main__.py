"""Self-distil an image tower; ends in an official-layout checkpoint, its measured effect and its export command."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from export.errors import ExportError
from recipes.clipself.distil import Run, blend, start, train
from recipes.clipself.images import DrawnScenes, ImageFolder, Source
from recipes.clipself.judge import judge
from recipes.clipself.official import Original, read_original, write_checkpoint
from recipes.clipself.scenes import Scenes
from recipes.clipself.settings import Data, Settings, SettingsError, read_settings
from recipes.common import load_state, progress, save_state

CHECKPOINT, DOCUMENT, STATE = "clipself.safetensors", "clipself.json", "state.pt"


def main(arguments: list[str] | None = None) -> int:
    """Train, write checkpoint and document, print the effect and the export command. 2: the settings are unusable."""
    parser = argparse.ArgumentParser(prog="python -m recipes.clipself", description=__doc__)
    parser.add_argument("settings", type=Path, help="TOML file, e.g. recipes/clipself/drawn_scenes.toml")
    parser.add_argument("--out", type=Path, required=True, help="folder; a run that was interrupted there goes on")
    parser.add_argument("--until", type=int, help="stop after this step; the same command without it goes on")
    parser.add_argument("--threads", type=int, default=1, help="threads; with another number sums round otherwise")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    try:
        settings = read_settings(given.settings)
        distil(settings, given.out, until=given.until)
    except (SettingsError, ExportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def distil(settings: Settings, folder: Path, *, until: int | None = None) -> dict[str, Any] | None:
    """The whole run; returns the document written beside the checkpoint, None if it stopped before its last step."""
    original = read_original(settings.data)
    check_size(settings, original)
    run = start(original.network.visual, settings.training)
    if (state := load_state(folder / STATE)) is not None:
        check_state(state, settings)
        run.restore(state["run"])
    losses, seconds = fit(run, original, settings, folder, until, spent=state["cpu_seconds"] if state else 0.0)
    if run.step < settings.training.steps:
        print(f"stopped after step {run.step} of {settings.training.steps}; the same command without --until goes on")
        return None
    tower = blend(run.student, original.network.visual, settings.training.kept)
    write_checkpoint(folder / CHECKPOINT, original, tower)
    document = original.document | {"training": describe(settings, losses, seconds)}
    if settings.data.scenes is not None:
        document["training"]["box_top1"] = measure(settings, folder, original)
    (folder / DOCUMENT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(export_command(settings, folder))
    return document


def fit(
    run: Run, original: Original, settings: Settings, folder: Path, until: int | None, *, spent: float
) -> tuple[list[float], float]:
    """Train, save now and then, and at the end; returns the losses of these steps and the run's CPU seconds so far."""
    losses: list[float] = []
    plan, began = settings.training, time.process_time()

    def save() -> float:
        seconds = spent + time.process_time() - began
        save_state(folder / STATE, {"settings": repr(settings), "cpu_seconds": seconds, "run": run.state()})
        return seconds

    with progress("distil", plan.steps) as tell:

        def after_step(run: Run, loss: float) -> None:
            losses.append(loss)
            recent = losses[-50:]
            tell(run.step, f"loss {sum(recent) / len(recent):.4f}")
            if run.step % plan.save_every == 0:
                save()

        train(run, original.network.visual, open_source(settings.data, plan.image_size), plan, after_step, until)
    return losses, save()


def open_source(data: Data, size: int) -> Source:
    """The training images a run's settings name."""
    if data.images is not None:
        return ImageFolder(data.images)
    assert data.artwork is not None
    photographs = sorted(data.photographs.glob("*.jpg")) if data.photographs else []
    return DrawnScenes(Scenes(data.artwork, photographs, size))


def check_size(settings: Settings, original: Original) -> None:
    """Raise SettingsError where the student's input is no whole number of patches."""
    patch, size = original.config.vision.patch_size, settings.training.image_size
    if size % patch:
        raise SettingsError(f"training.image_size: got {size}, expected a multiple of the patch size {patch}")


def check_state(state: dict[str, Any], settings: Settings) -> None:
    """Raise SettingsError where a folder holds another run."""
    if state["settings"] != repr(settings):
        raise SettingsError("--out holds a run with other settings; name another folder, or remove its state.pt")


def measure(settings: Settings, folder: Path, original: Original) -> dict[str, float]:
    """Box classification of the checkpoint as written, and of the original."""
    data, size = settings.data, settings.training.image_size
    assert data.scenes is not None
    written = Data(checkpoint=folder / CHECKPOINT, config=data.config, images=folder)
    after = judge(original, read_original(written).network.visual, data.scenes, size)
    found = {"before": judge(original, original.network.visual, data.scenes, size), "after": after}
    print(f"box classification, top-1: {found['before']:.1%} before, {found['after']:.1%} after")
    return found


def describe(settings: Settings, losses: list[float], seconds: float) -> dict[str, Any]:
    """How the checkpoint was made; loss: mean of the last steps."""
    recent = losses[-50:]
    loss = round(sum(recent) / len(recent), 4) if recent else None
    return {"method": "CLIPSelf", **vars(settings.training), "loss": loss, "cpu_seconds": round(seconds, 1)}


def export_command(settings: Settings, folder: Path) -> str:
    """What presses the checkpoint."""
    return (
        f"pressroom export detect {folder / CHECKPOINT} --name {settings.name} --config {folder / DOCUMENT} "
        f"--clip {settings.data.checkpoint} --size {settings.training.image_size}"
    )


if __name__ == "__main__":
    sys.exit(main())
