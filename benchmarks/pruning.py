"""What pruning does to SmolLM2-135M-Instruct: perplexity by method and pattern, and what shrinking saves.

    python -m benchmarks.pruning [--windows 32] [--only NAME] [--write-docs]

Slow: one to two minutes a row on one thread, the surgeon's six. Finished rows are kept in out/pruning-benchmark, so
that a stopped run goes on where it was; --fresh forgets them. Exit status: 0 all promises hold, 1 some do not,
2 misuse.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmarks.command import run
from benchmarks.pruning_promises import PROMISES, Promise, Values

if TYPE_CHECKING:
    from torch import Tensor

    from export.llm_folder import ModelFolder

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "out" / "pruning-benchmark"
TEXT = ROOT / "data" / "text"
TOKENS, EVALUATION_WINDOWS = 512, 24
COMPUTE = "bfloat16"  # as the model is stored; log-likelihoods are float32
DENSE = "dense"


@dataclass(frozen=True)
class Row:
    """One line of the table: settings of a PruneJob. timed: against its dense twin."""

    name: str
    method: str
    pattern: str
    settings: dict[str, Any] = field(default_factory=dict)
    timed: bool = False


ROWS = (
    Row("magnitude 50 %", "magnitude", "unstructured"),
    Row("Wanda 50 %", "wanda", "unstructured"),
    Row("RIA 50 %", "ria", "unstructured"),
    Row("RIA 50 %, a = 1", "ria", "unstructured", {"power": 1.0}),
    Row("magnitude 2:4", "magnitude", "2:4"),
    Row("Wanda 2:4", "wanda", "2:4", timed=True),
    Row("RIA 2:4", "ria", "2:4"),
    Row("RIA 2:4, permuted", "ria", "2:4", {"permute": True}),
    Row("RIA 4:8", "ria", "4:8"),
    Row("RIA 4:8, permuted", "ria", "4:8", {"permute": True}),
    Row("magnitude 20 % structured", "magnitude", "structured", {"sparsity": 0.2}),
    Row("Surgeon 20 % structured", "surgeon", "structured", {"sparsity": 0.2}),
    Row("Surgeon 20 % structured, damping 0.01", "surgeon", "structured", {"sparsity": 0.2, "damping": 0.01}),
    Row("RIA, a third of the channels", "ria", "channels", {"sparsity": 1 / 3}, timed=True),
    Row("Surgeon, a third of the channels", "surgeon", "channels", {"sparsity": 1 / 3}),
)


def main(
    windows: Annotated[int, typer.Option(min=1, help="Calibration windows of 512 tokens.")] = 32,
    only: Annotated[list[str] | None, typer.Option(help="Measure only rows of this name; repeatable.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs measured.")] = False,
    write_docs: Annotated[bool, typer.Option(help="Write the measured parts of docs/pruning.md.")] = False,
) -> None:
    """Measure every row, print the table and the promises."""
    if unknown := set(only or ()) - {row.name for row in ROWS}:
        raise typer.BadParameter(f"{sorted(unknown)[0]!r} is no row", param_hint="--only")
    if fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    found = dict(measure([row for row in ROWS if not only or row.name in only], windows))
    values = {name: float(entry["perplexity"]) for name, entry in found.items()}
    _print(found, values)
    if write_docs:
        from benchmarks.pruning_page import write

        write(found, values, windows)
    if not all(promise.holds(values) for promise in PROMISES if promise.measured(values)):
        raise typer.Exit(1)


def measure(rows: list[Row], windows: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, {perplexity, bytes, seconds, ...}) of the dense model and of every row, kept ones first asked for."""
    import torch

    from export.llm_source import EMBEDDED, open_model
    from export.progress import silent

    torch.set_num_threads(1)
    KEPT.mkdir(parents=True, exist_ok=True)
    source = open_model(EMBEDDED, KEPT, silent)
    scored = _scored(source)
    yield DENSE, _kept(KEPT / "dense.json", lambda: _measure_folder(source.path, scored))
    for row in rows:
        file = KEPT / f"{_slug(row.name)}-{windows}.json"
        print(f"{row.name} ...", flush=True)
        yield row.name, _kept(file, lambda row=row: _measure_row(row, source.path, windows, scored))  # type: ignore[misc]


def _measure_row(row: Row, model: Path, windows: int, scored: Tensor) -> dict[str, Any]:
    from export.prune import prune
    from export.prune_plan import PruneJob

    out = KEPT / f"{_slug(row.name)}-pruned"
    shutil.rmtree(out, ignore_errors=True)
    started = time.process_time()
    calibration = TEXT / "wikitext2_calibration.txt"
    job = PruneJob(
        model=str(model),
        out=out,
        method=row.method,
        pattern=row.pattern,
        calibration=calibration,
        windows=windows,
        tokens=TOKENS,
        compute=COMPUTE,
        speed=row.timed,
        **row.settings,
    )
    receipt = prune(job)
    cpu_seconds = time.process_time() - started
    extra = {"cpu_seconds": cpu_seconds, "removed": receipt["total"]["removed"], "speed": _ratio(receipt["speed"])}
    try:
        return _measure_folder(out, scored) | extra
    finally:
        shutil.rmtree(out)


def _ratio(speed: dict[str, Any] | None) -> float | None:
    """Tokens per CPU second, pruned over dense."""
    return speed and speed["pruned"]["tokens_per_cpu_second"] / speed["dense"]["tokens_per_cpu_second"]


def _measure_folder(path: Path, scored: Tensor) -> dict[str, Any]:
    from export.llm_folder import ModelFolder
    from export.llm_layers import LayerwiseNetwork, computing_dtype
    from export.llm_text import perplexity

    folder = ModelFolder(path, path.name)
    dtype = computing_dtype(COMPUTE, COMPUTE)
    found = perplexity(LayerwiseNetwork(path, folder, dtype), folder, scored)
    return {"perplexity": found, "bytes": folder.weight_bytes(), "cpu_seconds": 0.0, "removed": 0.0}


def _scored(source: ModelFolder) -> Tensor:
    from export.hugging_face import load_tokenizer
    from export.llm_text import equal_windows, read_tokens

    text = read_tokens(TEXT / "wikitext2_eval.txt", load_tokenizer(source.path))
    return equal_windows(text, EVALUATION_WINDOWS, TOKENS)


def _kept(file: Path, work: Any) -> dict[str, Any]:
    if not file.is_file():
        file.write_text(json.dumps(work()) + "\n")
    entry: dict[str, Any] = json.loads(file.read_bytes())
    return entry


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def _print(found: dict[str, dict[str, Any]], values: Values) -> None:
    from benchmarks.pruning_page import HEADINGS, rows
    from pressroom.output import print_table

    print_table(HEADINGS, rows(found))
    measured: list[Promise] = [promise for promise in PROMISES if promise.measured(values)]
    print_table(("promise", "measured", "holds"), [promise.row(values) for promise in measured])


if __name__ == "__main__":
    run(main, "python -m benchmarks.pruning --only 'RIA 2:4'")
