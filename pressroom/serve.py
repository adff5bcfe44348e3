"""`pressroom serve`: start the BentoML service of a family, or of all of them."""

from __future__ import annotations

import os
import socket
from typing import Annotated, Any, NoReturn

import typer

SERVICES = {"gateway": "services.gateway:Gateway", "forecast": "services.forecast:Forecast"}
_EXAMPLE = "Example: pressroom serve gateway --port 3000 --grpc-port 3001"


def serve(
    service: Annotated[str, typer.Argument(help=f"One of: {', '.join(SERVICES)}.")],
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="HTTP port.")] = None,
    grpc_port: Annotated[int | None, typer.Option(help="gRPC port; 0 for none.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.")] = None,
    models: Annotated[
        str | None, typer.Option(help="Artifacts to serve: name or name:version, comma separated.")
    ] = None,
    print_config: Annotated[bool, typer.Option(help="Show every setting and its origin, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --print-config: JSON.")] = False,
) -> None:
    """Serve artifacts over HTTP and gRPC until interrupted."""
    from services.core.settings import SettingsError, as_environment, load_settings

    if service not in SERVICES:
        raise typer.BadParameter(f"{service!r}: there are {', '.join(SERVICES)}", param_hint="SERVICE")
    flags = {
        "host": host,
        "port": port,
        "grpc_port": grpc_port,
        "workers": workers,
        "models": models,
    }
    try:
        loaded = load_settings(flags)
    except SettingsError as fault:
        _fail(str(fault), "see `pressroom serve gateway --print-config` for all settings")
    if print_config:
        _show(loaded.values.model_dump(), loaded.origins, as_json)
        return
    for name in ("port", "grpc_port"):
        _require_free(loaded.values.host, getattr(loaded.values, name), name)
    os.environ |= as_environment(loaded)
    _run(SERVICES[service], loaded.values.host, loaded.values.port)


def _run(target: str, host: str, port: int) -> None:
    from _bentoml_impl.loader import load
    from _bentoml_impl.server import serve_http
    from bentoml._internal.log import configure_server_logging

    configure_server_logging()  # type: ignore[no-untyped-call]
    load(target)  # first, so that importing it prepares this process before BentoML makes its directories
    serve_http(target, host=host, port=port, working_dir=os.getcwd())


def _require_free(host: str, port: int, name: str) -> None:
    if port == 0:
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            _fail(f"{name} {port} on {host}: {fault.strerror}", f"choose another with --{name.replace('_', '-')}")


def _show(values: dict[str, Any], origins: dict[str, str], as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps({name: {"value": v, "origin": origins[name]} for name, v in values.items()}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("setting", "value", "origin")
    for name, value in values.items():
        table.add_row(name, str(value), origins[name])
    Console().print(table)


def _fail(message: str, hint: str) -> NoReturn:
    typer.echo(f"error: {message}\nhint: {hint}", err=True)
    raise typer.Exit(2)


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=_EXAMPLE)(serve)
