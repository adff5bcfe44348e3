"""Costs that grow, for docs/growth.md and the int8 tables of docs/export.md.

    python -m benchmarks.growth [--parts batch,payload,models,start,load,int8] [--rounds 2] [--write-docs]

Throughput against rows of a forward pass, rows of a request, and loaded models; from the start of the process until it
is ready; from the store to the first answer; int8 beside float32. About six minutes on two quiet cores.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.command import ALL, chosen, run
from benchmarks.report import DOCS, replace_measured, write_page
from benchmarks.server import ROOT, use_own_store

PARTS = ("batch", "payload", "models", "start", "load", "int8")
FIGURES = ROOT / "out" / "benchmarks" / "growth.json"
COMMAND = "python -m benchmarks.growth --write-docs"
_EXAMPLE = "python -m benchmarks.growth --parts batch,payload"


def main(
    parts: Annotated[str, typer.Option(help=f"Of {', '.join(PARTS)}.")] = ALL,
    rounds: Annotated[int, typer.Option(min=1, help="Cold starts of each family; the quickest counts.")] = 2,
    write_docs: Annotated[bool, typer.Option(help="Write docs/growth.md, its picture and int8's tables.")] = False,
) -> None:
    """Measure costs that grow. Exit status 1 if a request failed."""
    wanted = chosen(parts, PARTS, "--parts")
    use_own_store()
    if not _report(_measure(wanted, rounds), write_docs):
        raise typer.Exit(1)


def _measure(parts: list[str], rounds: int) -> dict[str, Any]:
    from benchmarks import growth_measures as measures
    from pressroom.bundled import press_bundled

    press_bundled()
    found: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    families = measures.families() if {"start", "load"} & set(parts) else {}
    steps = {
        "batch": lambda: {name: measures.batch_sizes(name) for name in (measures.MODEL, measures.OTHER)},
        "payload": lambda: measures.payloads(measures.MODEL),
        "models": lambda: measures.loaded_models(measures.MODEL),
        "start": lambda: measures.cold_starts(families, rounds),
        "load": lambda: measures.loads(families),
        "int8": _int8,
    }
    for part in parts:
        print(f"measuring {part}", flush=True)
        found[part] = steps[part]()
    return found


def _int8() -> str:
    from benchmarks.growth_int8 import section

    return section()


def _report(found: dict[str, Any], write_docs: bool) -> bool:
    """Print, and write what was asked for; whether every request was answered."""
    from benchmarks import growth_page as page

    print("\n\n".join(page.sections(found)))
    if "int8" in found:
        print(f"\n{found['int8']}")
    FIGURES.write_text(json.dumps(found, default=vars, indent=1) + "\n")
    if write_docs:
        _write(found)
    failed = page.failures(found)
    if failed:
        print(f"\n{failed} requests failed")
    return not failed


def _write(found: dict[str, Any]) -> None:
    """What was measured of it; a page that lacks a part keeps what it says."""
    from benchmarks import growth_page as page

    if "int8" in found:
        replace_measured(DOCS / "export.md", "int8", found["int8"])
    if set(PARTS) - {"int8"} <= found.keys():
        page.draw(found, Path(DOCS / page.PICTURE))
        write_page("growth.md", COMMAND, page.sections(found))


if __name__ == "__main__":
    run(main, _EXAMPLE)
