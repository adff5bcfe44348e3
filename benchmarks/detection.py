"""Open-vocabulary detection, served: right boxes before and after CLIPSelf, and what a region costs.

    python -m benchmarks.detection [--recipe out/clipself] [--write-docs]

--recipe names the folder of a finished run of `recipes/clipself`, whose result is measured, too. Exit status: 0 all
promises hold, 1 some do not, 2 misuse.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pressroom_client import Client
from rich.console import Console

from benchmarks import detection_accuracy as accuracy
from benchmarks import detection_throughput as throughput
from benchmarks.command import run
from benchmarks.server import ROOT, gateway, use_own_store

BEFORE, AFTER, RECIPE = "clip-tiny", "clipself-tiny", "clipself-recipe"
PUBLISHED = {BEFORE: 0.053, AFTER: 0.533}  # boxes, top-1; ours must be within MARGIN
MARGIN = 0.004
RECIPE_LEAST, RECIPE_MINUTES = 0.40, 15.0
SIDE = "192"  # pixels; the scenes' own
COMMAND = "python -m benchmarks.detection --recipe out/clipself --write-docs"


def main(
    recipe: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="A finished recipe's folder.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of the cost measurement; medians are kept.")] = 5,
    write_docs: Annotated[bool, typer.Option(help="Write the measured parts of docs/detection.md.")] = False,
) -> None:
    """Measure the served towers on labelled scenes, and what regions cost."""
    use_own_store()
    screen = Console(stderr=True)
    models = press_all(recipe, screen)
    with gateway({"PRESSROOM_MODELS": ",".join(models)}) as server, screen.status("") as status:
        with Client(server.url, timeout=300) as client:
            measured = []
            for model in models:
                status.update(f"scenes, {model}")
                measured.append(accuracy.measure(client, model, crop_model=model))
        costs = throughput.measure(server, AFTER, rounds, status.update)
    report(measured, models, costs, recipe, write_docs)
    if broken := broken_promises(measured, costs, recipe):
        for promise in broken:
            print(f"BROKEN: {promise}", file=sys.stderr)
        raise typer.Exit(1)


def press_all(recipe: Path | None, screen: Console) -> dict[str, str]:
    """Artifacts of the benchmarks' own store, name -> how the table calls them. Raises CalledProcessError."""
    from pressroom.bundled_detect import BEFORE as CLIP
    from pressroom.bundled_detect import press_clips

    with screen.status("press"):
        press_clips()
        models = {BEFORE: "before CLIPSelf", AFTER: "after CLIPSelf, the official program's weights"}
        if recipe is not None:
            command = [sys.executable, "-c", "from pressroom.cli import main; main()", "export", "detect"]
            command += [str(recipe / "clipself.safetensors"), "--config", str(recipe / "clipself.json")]
            command += ["--clip", str(CLIP), "--name", RECIPE, "--size", SIDE]
            subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
            models[RECIPE] = "after `recipes/clipself`"
    return models


def broken_promises(measured: list[accuracy.Accuracy], costs: list[throughput.Cost], recipe: Path | None) -> list[str]:
    """Sentences; none where all is well."""
    found = {one.model: one.boxes for one in measured}
    broken = [
        f"{model}: {found[model]:.1%} of the boxes, expected {expected:.1%} within {MARGIN:.1%}"
        for model, expected in PUBLISHED.items()
        if abs(found[model] - expected) > MARGIN
    ]
    if found.get(RECIPE, 1.0) < RECIPE_LEAST:
        broken.append(f"the recipe's weights: {found[RECIPE]:.1%} of the boxes, expected {RECIPE_LEAST:.0%} or more")
    if recipe is not None and (minutes := training(recipe)["cpu_seconds"] / 60) > RECIPE_MINUTES:
        broken.append(f"the recipe took {minutes:.1f} CPU minutes, expected {RECIPE_MINUTES:.0f} at most")
    return broken + [f"{boxes} boxes an image: cropping is no dearer" for boxes in throughput.beaten(costs)]


def report(
    measured: list[accuracy.Accuracy],
    titles: dict[str, str],
    costs: list[throughput.Cost],
    recipe: Path | None,
    write_docs: bool,
) -> None:
    """Print; with write_docs, write the measured parts of the page."""
    from benchmarks.machine import describe
    from benchmarks.report import DOCS, machine_lines, replace_measured, table
    from pressroom.output import print_table

    for key, value in describe().items():
        print(f"{key}: {value}")
    print_table(accuracy.HEADINGS, accuracy.rows(measured, titles))
    print_table(throughput.HEADINGS, throughput.rows(costs))
    if write_docs:
        page = DOCS / "detection.md"
        replace_measured(page, "accuracy", table(accuracy.HEADINGS, accuracy.rows(measured, titles)) + said_of(recipe))
        cost = table(throughput.HEADINGS, throughput.rows(costs))
        replace_measured(page, "throughput", f"{cost}\n\n{machine_lines()}")


def training(recipe: Path) -> dict[str, Any]:
    """What a recipe's run says about itself."""
    found: dict[str, Any] = json.loads((recipe / "clipself.json").read_text(encoding="utf-8"))["training"]
    return found


def said_of(recipe: Path | None) -> str:
    """What the recipe took."""
    if recipe is None:
        return ""
    run = training(recipe)
    steps, minutes = f"{run['steps']} steps of {run['batch_size']} images", run["cpu_seconds"] / 60
    return f"\n\nThe recipe's run: {steps}, {minutes:.1f} CPU minutes on one thread."


if __name__ == "__main__":
    run(main, COMMAND)
