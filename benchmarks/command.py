"""A benchmark's command line: the options of one function, an example below its help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def run(main: Callable[..., Any], example: str) -> None:
    """Run it as a program with the process's arguments."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(epilog=f"Example: {example}")(main)
    app()
