"""`pressroom prune`: remove weights of a language model and say what that did to quality, size and speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pressroom.output import console, print_json, print_table, progress_bar

_EXAMPLE = """\b
Examples:
  pressroom prune smollm2 --method ria --pattern 2:4 --permute \\
    --calibration data/text/wikitext2_calibration.txt --out out/smollm2-2-4
  pressroom prune models/my-llama --method surgeon --pattern channels --sparsity 0.33 \\
    --calibration notes.txt --out out/smaller"""

Model = Annotated[str, typer.Argument(help="Folder with config.json and *.safetensors, a .gguf file, or smollm2.")]
Out = Annotated[Path, typer.Option(help="Folder to write; empty or new.")]
Method = Annotated[str, typer.Option(help="magnitude, wanda, ria or surgeon.")]
Pattern = Annotated[
    str,
    typer.Option(help="unstructured; N:M, N of M kept; structured: rows and columns; channels: smaller matrices."),
]
Sparsity = Annotated[float | None, typer.Option(help="Share removed, 0..1. Default: 0.5, or what N:M says.")]
Calibration = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Text the method learns from.")]
Evaluation = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Text for perplexity. Default: the repository's WikiText-2 cut."),
]
Windows = Annotated[int, typer.Option(help="Calibration sequences.")]
Tokens = Annotated[int, typer.Option(help="Tokens of a sequence, for calibration and perplexity.")]
Scored = Annotated[int, typer.Option("--evaluation-windows", help="Sequences perplexity is measured on.")]
Seed = Annotated[int, typer.Option(help="Places of the calibration sequences in the text.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an unfinished run in --out.")]
Cap = Annotated[str | None, typer.Option("--memory-cap", metavar="SIZE", help="Refuse to start beyond it, e.g. 4GB.")]
Permute = Annotated[bool, typer.Option("--permute", help="Reorder channels so that N:M costs less.")]
Power = Annotated[float, typer.Option("--a", help="RIA's power of the activations.")]
PerOutput = Annotated[
    bool | None, typer.Option("--per-output/--whole-matrix", help="Unstructured: compare where. Default: as published.")
]
Shots = Annotated[int, typer.Option(help="Surgeon: steps towards the sparsity, curvature measured anew for each.")]
Damping = Annotated[float, typer.Option(help="Surgeon: damping of the curvature; the paper's 0.01 wants more text.")]
Groups = Annotated[int, typer.Option("--kv-groups", help="Channels: key-value groups removed from every layer too.")]
Compute = Annotated[str, typer.Option(help="Precision of forward passes: float32, bfloat16, or auto: as stored.")]
Speed = Annotated[bool, typer.Option(help="Measure both twins' speed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the receipt as JSON.")]


def prune(
    model: Model,
    out: Out,
    method: Method = "ria",
    pattern: Pattern = "2:4",
    sparsity: Sparsity = None,
    calibration: Calibration = None,
    evaluation: Evaluation = None,
    windows: Windows = 32,
    tokens: Tokens = 512,
    evaluation_windows: Scored = 24,
    seed: Seed = 0,
    resume: Resume = False,
    memory_cap: Cap = None,
    permute: Permute = False,
    power: Power = 0.5,
    per_output: PerOutput = None,
    shots: Shots = 1,
    damping: Damping = 0.1,
    kv_groups: Groups = 0,
    compute: Compute = "auto",
    speed: Speed = True,
    as_json: AsJson = False,
) -> None:
    """Prune a language model; writes plain safetensors and receipt.json."""
    with progress_bar() as report:
        from export.prune import prune as run
        from export.prune import with_bundled_texts
        from export.prune_memory import parse_bytes
        from export.prune_plan import PruneJob

        job = PruneJob(
            model=model,
            out=out,
            method=method,
            pattern=pattern,
            sparsity=sparsity,
            calibration=calibration,
            evaluation=evaluation,
            windows=windows,
            tokens=tokens,
            evaluation_windows=evaluation_windows,
            seed=seed,
            resume=resume,
            memory_cap=None if memory_cap is None else parse_bytes(memory_cap),
            permute=permute,
            power=power,
            per_output=per_output,
            shots=shots,
            damping=damping,
            kv_groups=kv_groups,
            compute=compute,
            speed=speed,
        )
        found = run(with_bundled_texts(job), report)
    print_json(found) if as_json else _show(found, out)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(prune)


def _show(found: dict[str, Any], out: Path) -> None:
    print_table(("", "dense", "pruned"), _rows(found))
    lines = [
        f"{found['method']['method']}, {found['method']['pattern']}: {found['total']['removed']:.4f} of the weights "
        f"removed, {len(found['matrices'])} matrices verified",
        *(f"gained: {one}" for one in found["gained"]),
        *(f"not gained: {one['what']} ({one['why']})" for one in found["not_gained"]),
        f"written: {out} (receipt.json)",
    ]
    console().print("\n".join(lines), markup=False, soft_wrap=True)


def _rows(found: dict[str, Any]) -> list[list[str]]:
    size = found["size"]
    rows = [["weights, MB", f"{size['dense_bytes'] / 1e6:.1f}", f"{size['pruned_bytes'] / 1e6:.1f}"]]
    if quality := found["perplexity"]:
        label = f"perplexity on {quality['text']}"
        rows.insert(0, [label, f"{quality['dense']:.2f}", f"{quality['pruned']:.2f}"])
    if speed := found["speed"]:
        dense, pruned = speed["dense"], speed["pruned"]
        fast = [f"{one['tokens_per_cpu_second']:.1f}" for one in (dense, pruned)]
        rows.append(["tokens per CPU second", *fast])
        rows.append(["time to first token, ms", *(f"{one['ttft_ms']:.0f}" for one in (dense, pruned))])
    return rows
