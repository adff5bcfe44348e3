"""A benchmark's command line: the options of one function, an example below its help; names chosen of those known."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import typer

from pressroom.tables import names

ALL = "all"


def run(main: Callable[..., Any], example: str) -> None:
    """Run it as a program with the process's arguments."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(epilog=f"Example: {example}")(main)
    app()


def chosen(text: str, known: Collection[str], option: str) -> list[str]:
    """Names out of a comma separated list, in the order known. Raises typer.BadParameter."""
    if text == ALL:
        return list(known)
    wanted = names(text)
    if not wanted or any(name not in known for name in wanted):
        raise typer.BadParameter(f"{text!r}: there are {', '.join(known)}", param_hint=option)
    return [name for name in known if name in wanted]
