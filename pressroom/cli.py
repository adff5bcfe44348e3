"""`pressroom VERB ...`: the front desk. Each verb is a module with `register(app)`; heavy imports wait until it runs.

Exit status: 0 fine, 1 a finding (something was examined and refused), 2 misuse (the command itself makes no sense).
With --json standard output holds JSON only; progress and errors go to standard error.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from pressroom.output import fail

VERBS = (
    "export",
    "convert",
    "calibrate",
    "forecast",
    "backtest",
    "prune",
    "verify",
    "inspect",
    "models",
    "serve",
    "call",
    "bench",
    "tune",
    "text",
    "image",
    "ehr",
    "k8s",
    "key",
)

app = typer.Typer(
    name="pressroom",
    help="Press a trained checkpoint into a verified artifact, serve it, and trace every answer back to it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """Run one command line (default: the process's own) and exit with its status."""
    os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")  # no verb calls home
    try:
        app(arguments)
    except Exception as error:
        refusal = _as_refusal(error)
        if refusal is None:
            raise
        message, hint, status = refusal
        sys.exit(fail(message, hint, status, as_json="--json" in (sys.argv if arguments is None else arguments)))


def _as_refusal(error: Exception) -> tuple[str, str, int] | None:
    """Message, hint and exit status of an error that is meant for the caller; None for a fault of ours."""
    from export.artifact import ArtifactError
    from export.errors import ExportError, OptionError

    if isinstance(error, ExportError | ArtifactError):
        return error.message, error.hint, 2 if isinstance(error, OptionError) else 1
    return None


def _print_version(wanted: bool) -> None:
    if wanted:
        from services.core.version import VERSION

        typer.echo(f"pressroom {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Press a trained checkpoint into a verified artifact, serve it, and trace every answer back to it."""


for _verb in VERBS:
    import_module(f"pressroom.{_verb}").register(app)
