"""`pressroom convert`: old checkpoints that are programs (pickles) -> folders of plain data. Offline, opt in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pressroom.output import console, print_json

_EXAMPLE = "Example: pressroom convert motor-v0 motor-t-base out/motor-t-base"


def motor_v0(
    folder: Annotated[
        Path,
        typer.Argument(exists=True, file_okay=False, help="femr 0.1 folder: dictionary, model/."),
    ],
    out: Annotated[Path, typer.Argument(help="Folder to write: config.json, model.safetensors, dictionary.msgpack.")],
    codes: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="batch_info.msgpack with the tasks' codes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the written files as JSON.")] = False,
) -> None:
    """Convert a femr 0.1 (JAX) MOTOR checkpoint. Its pickle is interpreted, never run: arrays and dicts only."""
    from export.ehr_convert import convert_v0

    written = convert_v0(folder, out, codes)
    if as_json:
        print_json({"files": [path.name for path in written]})
        return
    for path in written:
        console().print(f"{path.name}  {path.stat().st_size} bytes", markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Turn an old checkpoint into plain data.")
    group.command("motor-v0", epilog=_EXAMPLE)(motor_v0)
    app.add_typer(group, name="convert", epilog=_EXAMPLE)

    @group.callback()
    def _families() -> None:
        """Turn an old checkpoint into plain data."""
