"""The measured parts of docs/pruning.md; what stands around them is written by hand.

<!-- measured: table -->
...
<!-- end -->
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from benchmarks.machine import describe
from benchmarks.pruning_promises import PROMISES, Values
from benchmarks.report import DOCS, replace_measured, table

HEADINGS = ("model", "perplexity", "weights removed", "file, MB", "tokens per CPU second", "CPU seconds")
COMMAND = "python -m benchmarks.pruning --windows {windows} --write-docs"
PAGE = DOCS / "pruning.md"


def rows(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The table's lines."""
    return [
        [
            name,
            f"{entry['perplexity']:,.1f}",
            f"{entry['removed']:.3f}" if entry["removed"] else "-",
            f"{entry['bytes'] / 1e6:.1f}",
            f"{entry['speed']:.2f} x dense" if entry.get("speed") else "-",
            f"{entry['cpu_seconds']:.0f}" if entry["cpu_seconds"] else "-",
        ]
        for name, entry in found.items()
    ]


def write(found: dict[str, dict[str, Any]], values: Values, windows: int) -> None:
    """Replace the measured parts. Raises ValueError where the page has no place for one."""
    promises = [promise.row(values) for promise in PROMISES if promise.measured(values)]
    replace_measured(PAGE, "table", f"{_protocol(windows)}\n\n{table(HEADINGS, rows(found))}")
    replace_measured(PAGE, "promises", table(("must hold: ratio of perplexities", "measured", "holds"), promises))


def _protocol(windows: int) -> str:
    known = describe()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    return f"""Made by `{COMMAND.format(windows=windows)}`.
Perplexity on `data/text/wikitext2_eval.txt`: 24 windows of 512 tokens at equal strides, tokens 2 to 512 scored;
{windows} calibration windows of 512 tokens from the other file, seed 0; forward passes in bfloat16, log-likelihoods in
float32; single runs, one thread. Comparable with each other only. Speed is that of transformers in float32, one
sequence, where it was measured; CPU seconds are those of the pruning.

Machine: {known["processor"]}, {known["system"]}, {libraries}."""
