"""What packed 2:4 layers gain on this processor: single layers, and SmolLM2 decoding through the serving backend.

    python -m benchmarks.packed [--rounds 7] [--only layers|model] [--write-docs]

The model is SmolLM2-135M-Instruct pruned to 2:4 by magnitude (which weights go does not change the speed), pressed
once into out/packed-benchmark and found again there. All forms take turns in one process on one thread; CPU time is
the process's own, and medians of the turns are shown. Exit status: 0 the promises hold, 1 some do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.command import run
from benchmarks.machine import describe
from benchmarks.packed_layers import LAYER_HEADINGS, layer_rows
from benchmarks.packed_model import MODEL_HEADINGS, FormFigures, measure_model, model_rows
from benchmarks.report import DOCS, replace_measured, table
from models.packed.library import HINT, is_built

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "out" / "packed-benchmark"
COMMAND = "python -m benchmarks.packed --write-docs"
LEAST_SPEED, MOST_BYTES = 1.3, 0.62


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of every form.")] = 7,
    only: Annotated[str, typer.Option(help="layers, model, or empty for both.")] = "",
    write_docs: Annotated[bool, typer.Option(help="Write the measured parts of docs/packed.md.")] = False,
) -> None:
    """Measure, print the tables, check the promises."""
    if only not in ("", "layers", "model"):
        raise typer.BadParameter(f"{only!r} is neither layers nor model", param_hint="--only")
    if not is_built():
        raise typer.BadParameter(f"the packed kernels are not built: {HINT}")
    parts = {}
    fine = True
    if only != "model":
        parts["layers"] = table(LAYER_HEADINGS, layer_rows(rounds))
        typer.echo(parts["layers"])
    if only != "layers":
        figures = measure_model(KEPT, rounds)
        promises, fine = judged(figures)
        parts["model"] = table(MODEL_HEADINGS, model_rows(figures))
        parts["promises"] = table(("must hold", "measured", "holds"), promises)
        typer.echo(f"{parts['model']}\n\n{parts['promises']}")
    machine = "Machine: " + ", ".join(describe().values()) + "."
    typer.echo(machine)
    if write_docs:
        for name, text in parts.items():
            replace_measured(DOCS / "packed.md", name, text)
        replace_measured(DOCS / "packed.md", "machine", f"Made by `{COMMAND}`. {machine}")
    raise typer.Exit(0 if fine else 1)


def judged(figures: dict[str, FormFigures]) -> tuple[list[list[str]], bool]:
    """The promises as table lines, and whether all hold."""
    dense, packed = figures["fp32"], figures["packed-2:4"]
    speed, share = packed.decode_1 / dense.decode_1, packed.file_bytes / dense.file_bytes
    lines = [
        [f"tokens per CPU second at batch 1, packed / fp32: at least {LEAST_SPEED}", f"{speed:.2f}"],
        [f"weights on disk, packed / fp32: at most {MOST_BYTES}", f"{share:.2f}"],
    ]
    verdicts = [speed >= LEAST_SPEED, share <= MOST_BYTES]
    rows = [[*line, "yes" if holds else "NO"] for line, holds in zip(lines, verdicts, strict=True)]
    return rows, all(verdicts)


if __name__ == "__main__":
    run(main, "python -m benchmarks.packed --only layers")
