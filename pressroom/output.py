"""What verbs print: tables for people, JSON for machines, progress and refusals on standard error."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from export.progress import Report
    from export.store import Stored

PLAIN_WIDTH = 400  # columns when the output is a file or a pipe: one line a row, never folded


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def console() -> Console:
    """Standard output for people."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table without lines; cells are taken literally."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=any(headings))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console().print(table)


def identity(stored: Stored) -> dict[str, Any]:
    """What --json says of a pressed artifact, whatever its family."""
    names = ("name", "version", "tag", "digest", "unchanged")
    return {name: getattr(stored, name) for name in names}


def stored_line(stored: Stored) -> str:
    """Which artifact it became, and whether it was there already."""
    return f"{stored.tag}  {stored.digest}  {'unchanged' if stored.unchanged else 'stored'}"


def fail(message: str, hint: str, status: int, *, as_json: bool) -> int:
    """Print a refusal (and, with --json, its JSON) and return the exit status."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    if as_json:
        print_json({"error": {"message": message, "hint": hint or None}})
    return status


@contextlib.contextmanager
def progress_bar() -> Iterator[Report]:
    """A progress bar on standard error, one line a step; silent unless that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        steps = bars.add_task("press", total=1)
        finer = bars.add_task("", total=1, visible=False)

        def report(step: str, done: int, total: int) -> None:
            fine = total > FINE_FROM
            bars.update(finer if fine else steps, description=step, completed=done, total=total, visible=True)

        yield report


FINE_FROM = 20  # a step with more units than this gets a bar of its own
