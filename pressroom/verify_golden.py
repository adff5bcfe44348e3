"""`pressroom verify golden PATH...`: check this build against what the papers' own programs answered.

PATH is a case's JSON file or a folder searched to its depths; files without a "system" are passed over there.
Prints one line an output. Exit status: 0 all hold, 1 a finding, 2 misuse (no such path, nothing to check).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from export.golden.case import CaseError, NotACaseError, find_cases, read_case
from export.golden.compare import OutputResult
from export.golden.runners import run_case

HOLDS, FINDING, MISUSE = 0, 1, 2
PLAIN_WIDTH = 200  # columns when the output is a file or a pipe: one line an output, never folded
LISTED = 3  # places named behind one finding before "and n more"
COLOURS = {"ok": "green", "fail": "bold red", "error": "bold red", "unsupported": "yellow"}


@dataclass(frozen=True)
class CaseReport:
    """One case and its results."""

    path: Path
    system: str
    results: list[OutputResult]

    @property
    def holds(self) -> bool:
        """Every output agrees."""
        return all(result.verdict == "ok" for result in self.results)


def verify_golden(paths: list[str], as_json: bool) -> int:
    """Run every case found under `paths`, print the findings, return the exit status."""
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        files = _cases([Path(path) for path in paths])
    except (FileNotFoundError, NotACaseError) as error:
        errors.print(f"error: {error}", markup=False)
        return MISUSE
    if not files:
        errors.print(f"error: no golden case under {', '.join(paths) or '(no path given)'}", markup=False)
        errors.print('hint: name CASE.json files with a "system", or folders that hold some', markup=False)
        return MISUSE
    watched = track(files, description="golden cases", console=errors, transient=True, disable=not errors.is_terminal)
    reports = [CaseReport(file, *run_case(file)) for file in watched]
    _print_json(reports) if as_json else _print_table(reports)
    return HOLDS if all(report.holds for report in reports) else FINDING


def _cases(paths: list[Path]) -> list[Path]:
    """Case files to run; unreadable JSON stays in, to become a finding. A file named directly must be a case."""
    direct = {file.resolve() for file in find_cases(path for path in paths if not path.is_dir())}
    chosen = []
    for file in find_cases(paths):
        try:
            read_case(file)
        except NotACaseError:
            if file.resolve() in direct:
                raise
            continue
        except CaseError:
            pass
        chosen.append(file)
    return chosen


def _print_table(reports: list[CaseReport]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    labels = _labels([report.path for report in reports])
    console.print(_table(reports, labels))
    for detail, places in _details(reports, labels).items():
        more = f" and {len(places) - LISTED} more" if len(places) > LISTED else ""
        console.print(f"{', '.join(places[:LISTED])}{more}: {detail}", markup=False, soft_wrap=True)
    broken = sum(not report.holds for report in reports)
    lines = sum(len(report.results) for report in reports)
    verdict = f"{broken} of them with findings" if broken else "all hold"
    console.print(f"{len(reports)} cases, {lines} outputs: {verdict}")


def _table(reports: list[CaseReport], labels: dict[Path, str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("case", "output", "shape", "max |diff|", "max rel", "tolerance", "verdict"):
        table.add_column(heading, no_wrap=True)
    for report in reports:
        for result in report.results:
            table.add_row(*_row(labels[report.path], result))
    return table


def _row(label: str, result: OutputResult) -> list[str]:
    compared = result.max_abs is not None or bool(result.shape)
    shape = escape(str(list(result.shape))) if compared else "-"
    verdict = f"[{COLOURS[result.verdict]}]{result.verdict}[/]"
    numbers = [_short(result.max_abs), _short(result.max_rel), result.tolerance or "-"]
    return [escape(label), escape(result.output), shape, *numbers, verdict]


def _labels(paths: list[Path]) -> dict[Path, str]:
    """A case goes by its file's name, or with its folder in front where two cases share one."""
    count = Counter(path.stem for path in paths)
    return {path: path.stem if count[path.stem] == 1 else f"{path.parent.name}/{path.stem}" for path in paths}


def _details(reports: list[CaseReport], labels: dict[Path, str]) -> dict[str, list[str]]:
    """What is wrong -> where, in the order met."""
    found: dict[str, list[str]] = {}
    for report in reports:
        for result in report.results:
            if result.detail:
                place = labels[report.path] if result.output == "-" else f"{labels[report.path]} {result.output}"
                found.setdefault(result.detail, []).append(place)
    return found


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _print_json(reports: list[CaseReport]) -> None:
    cases = [
        {
            "case": report.path.stem,
            "path": str(report.path),
            "system": report.system,
            "holds": report.holds,
            "outputs": [_plain(result) for result in report.results],
        }
        for report in reports
    ]
    print(json.dumps({"holds": all(report.holds for report in reports), "cases": cases}, indent=2))


def _plain(result: OutputResult) -> dict[str, Any]:
    """JSON knows no infinity: a difference that is not finite is written as a word."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(result).items()
    }
