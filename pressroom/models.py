"""`pressroom models`: what the model store holds, read from its labels; `pressroom verify` checks the bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pressroom.output import console, print_json, print_table

_EXAMPLE = "Example: pressroom models"


def models(as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False) -> None:
    """List the artifacts in the model store."""
    from export.store import listed

    found = listed()
    if as_json:
        print_json([asdict(entry) for entry in found])
    elif not found:
        console().print("no artifact yet: press one with `pressroom export`", markup=False)
    else:
        rows = [
            [e.name, e.version, e.family, e.architecture, e.digest[:19], f"{e.bytes / 1e6:.1f} MB", e.verdict]
            for e in found
        ]
        print_table(["name", "version", "family", "architecture", "digest", "size", "certificate"], rows)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(models)
