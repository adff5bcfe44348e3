"""`pressroom serve`: start the BentoML service of a family, or of all of them.

With nothing to serve (an empty store and no `--models`), the checkpoints bundled with a clone are pressed first; for
`llm`, the embedded language model and its pruned twin.
"""

from __future__ import annotations

import math
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pressroom.output import fail, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from services.core.settings import LoadedSettings, Settings

SERVICES = {
    "gateway": "services.gateway:Gateway",
    "forecast": "services.forecast:Forecast",
    "llm": "services.llm:Llm",
    "detect": "services.detect:Detect",
    "watermark": "services.watermark:Watermark",
    "ehr": "services.ehr:Ehr",
    "text-detect": "services.text_detect:TextDetect",
    "onnx": "services.onnx:Onnx",
}
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
    keys_file: Annotated[str | None, typer.Option(help="TOML file of hashed API keys (`pressroom key`).")] = None,
    insecure: Annotated[bool | None, typer.Option("--insecure", help="Answer the world without keys.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting; --print-config lists them.")
    ] = None,
    print_config: Annotated[bool, typer.Option(help="Show every setting and its origin, and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --print-config: JSON.")] = False,
) -> None:
    """Serve artifacts over HTTP and gRPC until interrupted."""
    if service not in SERVICES:
        raise typer.BadParameter(f"{service!r}: there are {', '.join(SERVICES)}", param_hint="SERVICE")
    flags = {"host": host, "port": port, "grpc_port": grpc_port, "workers": workers, "models": models}
    flags |= {"keys_file": keys_file, "insecure": insecure}
    loaded = _load(flags | _pairs(settings or []), config)
    if print_config:
        _show(loaded, as_json)
    else:
        _start(SERVICES[service], loaded)


def _load(flags: dict[str, Any], config: Path | None) -> LoadedSettings:
    from services.core.settings import CONFIG_FILE, SettingsError, load_settings

    if config is not None:
        os.environ[CONFIG_FILE] = str(config)
    try:
        return load_settings(flags)
    except SettingsError as fault:
        _misuse(str(fault), "`pressroom serve gateway --print-config` lists the settings")


def _pairs(entries: list[str]) -> dict[str, str]:
    pairs = dict(entry.partition("=")[::2] for entry in entries)
    if bad := [entry for entry in entries if "=" not in entry]:
        raise typer.BadParameter(f"{bad[0]!r} is not NAME=VALUE", param_hint="--set")
    return pairs


def _start(target: str, loaded: LoadedSettings) -> None:
    from services.core.gate import is_loopback
    from services.core.preflight import check_files
    from services.core.settings import SettingsError, as_environment

    values = loaded.values
    if not (values.keys_file or values.insecure or is_loopback(values.host)):
        _misuse(
            f"host {values.host} is open to the world and there are no API keys",
            "make keys with `pressroom key` and name the file with --keys-file; or --insecure if that is meant",
        )
    try:
        check_files(values)
    except SettingsError as fault:
        _misuse(str(fault), "`pressroom serve gateway --print-config` shows where each setting comes from")
    for name in ("port", "grpc_port"):
        _require_free(values.host, getattr(values, name), name)
    if not values.models:
        pressed_first = {SERVICES["llm"]: _press_twins_if_none, SERVICES["detect"]: _press_clips_if_none}
        pressed_first.get(target, _press_bundled_if_empty)()
    os.environ |= as_environment(loaded)
    _run(target, values)


def _run(target: str, settings: Settings) -> None:
    from _bentoml_impl.loader import load
    from _bentoml_impl.server import serve_http
    from bentoml._internal.log import configure_server_logging

    configure_server_logging()  # type: ignore[no-untyped-call]
    load(target).inject_config()  # as `bentoml serve` does
    drain = max(1, math.ceil(settings.drain_seconds))
    serve_http(target, host=settings.host, port=settings.port, working_dir=os.getcwd(), timeout_graceful_shutdown=drain)


def _press_bundled_if_empty() -> None:
    from export.artifact import stored_versions
    from pressroom.bundled import TRAINING_CSV, press_bundled

    if stored_versions() or not TRAINING_CSV.exists():
        return
    print("the model store is empty: pressing the bundled checkpoints (once, under a minute)", file=sys.stderr)
    with progress_bar() as report:
        press_bundled(report)


def _press_twins_if_none() -> None:
    from export.artifact import stored_versions
    from pressroom.bundled import TRAINING_CSV
    from pressroom.bundled_llm import press_twins

    if stored_versions("llm") or not TRAINING_CSV.exists():
        return
    print("there is no language model: pruning and pressing the embedded one (once, minutes)", file=sys.stderr)
    with progress_bar() as report:
        press_twins(report)


def _press_clips_if_none() -> None:
    from export.artifact import stored_versions
    from pressroom.bundled_detect import FOLDER, press_clips

    if stored_versions("detect") or not FOLDER.exists():
        return
    print("there is no image model: pressing the bundled ones (once, under a minute)", file=sys.stderr)
    with progress_bar() as report:
        press_clips(report)


def _require_free(host: str, port: int, name: str) -> None:
    if port == 0:
        return
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            _misuse(f"{name} {port} on {host}: {fault.strerror}", f"choose another with --{name.replace('_', '-')}")


def _show(loaded: LoadedSettings, as_json: bool) -> None:
    values, origins = loaded.values.shown(), loaded.origins
    if as_json:
        print_json({name: {"value": value, "origin": origins[name]} for name, value in values.items()})
    else:
        print_table(("setting", "value", "origin"), [(n, str(v), origins[n]) for n, v in values.items()])


def _misuse(message: str, hint: str) -> NoReturn:
    raise typer.Exit(fail(message, hint, 2, as_json=False))


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=_EXAMPLE)(serve)
