"""`pressroom export llm`: press a language model, dense or pruned, into an artifact of the model store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.output import console, identity, print_json, print_table, progress_bar, stored_line

if TYPE_CHECKING:
    from export.llm import Pressed

EXAMPLE = """\b
Examples:
  pressroom export llm smollm2 --name smollm2
  pressroom export llm out/smollm2-2-4 --name smollm2-2-4 --precision int8"""

Model = Annotated[str, typer.Argument(help="Folder with config.json and *.safetensors, a .gguf file, or smollm2.")]
Name = Annotated[str, typer.Option(help="Name of the artifact in the model store.")]
Version = Annotated[str | None, typer.Option(help="Its version. Default: the next whole number.")]
Stored = Annotated[str, typer.Option("--precision", help="Of the weights: int8, fp32, int4 or packed-2:4.")]
Evaluation = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Text for perplexity. Default: the repository's WikiText-2 cut."),
]
Windows = Annotated[int, typer.Option("--evaluation-windows", help="Sequences perplexity is measured on.")]
Tokens = Annotated[int, typer.Option(help="Tokens of such a sequence; at most the model's context.")]
Licence = Annotated[str | None, typer.Option(help="Of the weights, where the model's card does not say it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def llm(
    model: Model,
    name: Name,
    version: Version = None,
    precision: Stored = "int8",
    evaluation: Evaluation = None,
    evaluation_windows: Windows = 8,
    tokens: Tokens = 512,
    licence: Licence = None,
    as_json: AsJson = False,
) -> None:
    """Press a language model. Nothing is stored unless the certificate holds."""
    with progress_bar() as report:
        from export.llm import LlmJob, press

        job = LlmJob(
            model=model,
            name=name,
            version=version,
            precision=precision,  # type: ignore[arg-type]  # the job refuses unknown words
            evaluation=evaluation,
            windows=evaluation_windows,
            tokens=tokens,
            licence=licence,
        )
        pressed = press(job, report)
    print_json(_as_json(pressed)) if as_json else _show(pressed)


def _show(pressed: Pressed) -> None:
    certificate, stored = pressed.certificate, pressed.stored
    console().print(stored_line(stored), markup=False, soft_wrap=True)
    print_table(("against transformers, float32", "found", "bound"), figures(certificate, certificate["tolerance"]))
    lines = [
        *(f"{m.name} {m.value:g} on {m.data}, {m.split} [{m.origin}]" for m in pressed.metrics),
        *(f"note: {note}" for note in pressed.notes),
        f"peak memory {pressed.peak_bytes / 1e9:.2f} GB",
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def figures(found: dict[str, Any], bounds: dict[str, Any]) -> list[list[str]]:
    """Rows of name, figure and bound. found: a certificate, or the like with or without perplexity."""
    largest = "-" if bounds["logprob"] is None else f"<= {bounds['logprob']:g}"
    rows = [
        ["largest difference of log-probabilities, nats", f"{found['max_abs']:.1e}", largest],
        ["mean Kullback-Leibler divergence, nats", f"{found['kl']:.1e}", f"<= {bounds['kl']:g}"],
        ["likeliest token is the same", f"{found['top1']:.4f}", f">= {bounds['top1']:g}"],
        ["greedy tokens are the same", f"{found['greedy']:.4f}", f">= {bounds['greedy']:g}"],
    ]
    if quality := found.get("perplexity"):
        change = f"perplexity on {quality['text']}: {quality['reference']:.4g} -> {quality['graph']:.4g}, ratio"
        rows.append([change, f"{quality['ratio']:.4f}", f"<= {bounds['perplexity_ratio']:g}"])
    return rows


def _as_json(pressed: Pressed) -> dict[str, Any]:
    stored = pressed.stored
    return {
        **identity(stored),
        "certificate": pressed.certificate,
        "metrics": [metric.model_dump() for metric in pressed.metrics],
        "notes": pressed.notes,
        "peak_bytes": pressed.peak_bytes,
    }
