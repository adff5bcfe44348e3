"""`pressroom call`: send a csv to a running server through the client, print or write the answer.

The last look-back rows of the file go out; the look-back is asked from the server. Time is a column `date` or
`timestamp`, else a first column that holds no numbers, else absent. Addresses default to where this machine's
`pressroom serve` listens with the same settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pressroom.output import fail, print_json, print_table
from pressroom.tables import choose, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd
    from pressroom_client import Client, ForecastResult

_EXAMPLE = "Example: pressroom call forecast data/ett/ETTh1.csv --model itransformer-etth1 --horizon 24"
SHOWN = 12  # time steps printed for people


def forecast(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A csv with one row per time step.")],
    model: Annotated[str | None, typer.Option(help="name or name:version. Default: the only one served.")] = None,
    url: Annotated[
        str | None, typer.Option(help="http://host:port or grpc://host:port. Default: this machine.")
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", help="Speak gRPC.")] = False,
    horizon: Annotated[int | None, typer.Option(min=1, help="Time steps to forecast. Default: the model's.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns to send, in the model's order, comma separated. Default: all.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the forecast as csv to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Forecast what follows the last rows of a csv."""
    from pressroom_client import Client, PressroomError, UsageError

    frame = choose(read_table(file), columns, file.name)
    address = address_of(url, grpc)
    try:
        with Client(address, api_key=api_key) as client:
            name = model or only_model(client)
            rows = frame.tail(look_back(client, name))
            result = client.forecast(rows, model=name, horizon=horizon)
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    if out is not None:
        write_table(result.frame, out)
    _show(result, len(rows), out, as_json)


def register(app: typer.Typer) -> None:
    """Add the verb and its families."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Send data to a running server.")
    group.command(epilog=_EXAMPLE)(forecast)
    app.add_typer(group, name="call", epilog=_EXAMPLE)

    @group.callback()
    def _families() -> None:
        """Send data to a running server."""


def address_of(url: str | None, grpc: bool) -> str:
    """Where to call: what was given, or where a server with this environment's settings listens."""
    from services.core.settings import SettingsError, load_settings

    if url is not None:
        if grpc and not url.startswith("grpc"):
            raise typer.BadParameter(f"{url!r} is not a gRPC address; write grpc://host:port", param_hint="--url")
        return url
    try:
        settings = load_settings().values
    except SettingsError as error:
        raise typer.BadParameter(f"{error}; give the address", param_hint="--url") from None
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"grpc://{host}:{settings.grpc_port}" if grpc else f"http://{host}:{settings.port}"


def only_model(client: Client) -> str:
    """The one model a server has; BadParameter if there are others."""
    names = sorted({served.name for served in client.models()})
    if len(names) != 1:
        served = f"the server has {', '.join(names)}" if names else "the server has none yet"
        raise typer.BadParameter(f"which model? {served}", param_hint="--model")
    return names[0]


def look_back(client: Client, model: str) -> int:
    """Time steps the model reads, from its tensors: the one description both transports have."""
    inputs = {tensor.name: tensor.shape for tensor in client.metadata(model).inputs}
    if "history" not in inputs:
        raise typer.BadParameter(
            f"{model} is not a forecaster: its inputs are {', '.join(inputs)}", param_hint="--model"
        )
    return inputs["history"][1]


def _show(result: ForecastResult, sent: int, out: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(result))
        return
    if out is None:
        _print_frame(result.frame)
    else:
        print(f"{len(result.single)} time steps written to {out}")
    total = "" if result.timings.total_ms is None else f", {result.timings.total_ms:.1f} ms in the server"
    print(f"{result.model}:{result.version}  {result.digest}\n{sent} rows sent, request id {result.request_id}{total}")
    for note in result.warnings:
        print(f"note: {note.message}")


def _print_frame(frame: pd.DataFrame) -> None:
    """The first time steps, with a word about the rest."""
    shown = frame.head(SHOWN)
    rows = [
        [str(at), *(f"{value:.4g}" for value in row)] for at, row in zip(shown.index, shown.to_numpy(), strict=True)
    ]
    print_table(["time", *map(str, frame.columns)], rows)
    if len(frame) > len(shown):
        print(f"... {len(frame) - len(shown)} more time steps; --out FILE.csv writes all, --json prints all")


def _as_json(result: ForecastResult) -> dict[str, Any]:
    """The answer as the server gave it."""
    series = result.single
    stamps = None if series.timestamps is None else [str(at) for at in result.frame.index]
    return {
        "model": result.model,
        "version": result.version,
        "digest": result.digest,
        "request_id": result.request_id,
        "timings": {name: value for name, value in vars(result.timings).items() if value is not None},
        "batch_rows": result.batch_rows,
        "timestamps": stamps,
        "values": {name: values.tolist() for name, values in series.values.items()},
        "warnings": [{"code": note.code, "message": note.message} for note in result.warnings],
    }


def refuse(error: Any, as_json: bool, status: int) -> NoReturn:
    """Print what the client raised and exit."""
    from pressroom_client import APIConnectionError

    hint = error.hint or ""
    if isinstance(error, APIConnectionError):
        hint = "is a server running there? `pressroom serve gateway` starts one; --url names another address"
    where = f" [{error.field}]" if error.field and error.field not in error.message else ""
    raise typer.Exit(fail(f"{error.code}: {error.message}{where}", hint, status, as_json=as_json))
