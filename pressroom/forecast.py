"""`pressroom forecast`: what follows the last rows of a csv or parquet file, from a running server.

One wide table, or a long one of several series; gaps by a policy, intervals, a picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.call import address_of, look_back, only_model, refuse
from pressroom.output import print_json, print_table
from pressroom.tables import (
    Columns,
    IdColumn,
    Layout,
    TableFile,
    TimeColumn,
    TimeZone,
    ValueColumn,
    VariableColumn,
    in_zone,
    names,
    percentages,
    read_histories,
    write_table,
)

if TYPE_CHECKING:
    import pandas as pd
    from pressroom_client import ForecastResult

_EXAMPLE = """\b
Example:
  pressroom forecast data/ett/ETTh1.csv --model itransformer-etth1 --levels 80,95 --plot out.png"""
SHOWN = 12  # time steps printed of each series

Model = Annotated[str | None, typer.Option(help="name or name:version. Default: the only one served.")]
Url = Annotated[str | None, typer.Option(help="http://host:port or grpc://host:port. Default: this machine.")]
Grpc = Annotated[bool, typer.Option("--grpc", help="Speak gRPC.")]
Missing = Annotated[str | None, typer.Option(help="Missing values and time steps: refuse (default), ffill or linear.")]
ApiKey = Annotated[str | None, typer.Option(envvar="PRESSROOM_API_KEY", help="Key of a server that asks for one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


def forecast(
    file: TableFile,
    model: Model = None,
    url: Url = None,
    grpc: Grpc = False,
    horizon: Annotated[int | None, typer.Option(min=1, help="Time steps to forecast. Default: the model's.")] = None,
    roll_out: Annotated[
        bool, typer.Option("--roll-out", help="Go on from the forecast itself beyond the model's horizon.")
    ] = False,
    levels: Annotated[str | None, typer.Option(help="Intervals of these percentages, e.g. 80,95.")] = None,
    interval: Annotated[str | None, typer.Option(help="split (default) or adaptive.")] = None,
    missing: Missing = None,
    columns: Columns = None,
    target: Annotated[str | None, typer.Option(help="Columns to return, comma separated. Default: all.")] = None,
    id_column: IdColumn = None,
    time_column: TimeColumn = None,
    tz: TimeZone = None,
    variable_column: VariableColumn = None,
    value_column: ValueColumn = "y",
    api_key: ApiKey = None,
    out: Annotated[Path | None, typer.Option(help="Write the forecast to this csv or parquet file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this file (png, svg, pdf); needs matplotlib.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast what follows the last rows of a csv or parquet file."""
    from pressroom_client import Client, PressroomError, UsageError

    layout = Layout(columns=columns, id=id_column, time=time_column, variable=variable_column, value=value_column)
    histories = read_histories(file, layout)
    asked: dict[str, Any] = {"levels": percentages(levels), "columns": names(target or ""), "roll_out": roll_out}
    asked |= {"missing": missing, "interval": interval}
    try:
        with Client(address_of(url, grpc), api_key=api_key) as client:
            name = model or only_model(client)
            rows = look_back(client, name) * (1 if missing is None else 2)  # gaps may need what came before
            sent = {key: in_zone(frame.tail(rows), tz) for key, frame in histories.items()}
            chosen = {key: value for key, value in asked.items() if value}
            result = client.forecast(sent, model=name, horizon=horizon, **chosen)
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    if out is not None:
        write_table(_table(result), out)
    if plot is not None:
        _draw(histories, result, plot)
    _show(result, out, as_json)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(forecast)


def _table(result: ForecastResult) -> pd.DataFrame:
    """All series with their bounds; the id stays only where there are several."""
    from pressroom_client import to_long

    long = to_long(result, id="id", time="time")
    return long.drop(columns="id").set_index("time") if len(result) == 1 else long.set_index(["id", "time"])


def _draw(histories: dict[str, pd.DataFrame], result: ForecastResult, plot: Path) -> None:
    """One picture, or one a series with its id in the name."""
    from pressroom.plots import draw_forecast

    for one in result:
        key = str(one.id)
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in key)
        path = plot if len(result) == 1 else plot.with_name(f"{plot.stem}-{safe}{plot.suffix}")
        draw_forecast(histories[key], one, path)


def _show(result: ForecastResult, out: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(result))
        return
    if out is None:
        for one in result:
            print(f"{one.id}")
            frame = one.to_frame().head(SHOWN)
            rows = [
                [str(at), *(f"{value:.4g}" for value in row)]
                for at, row in zip(frame.index, frame.to_numpy(), strict=True)
            ]
            print_table(["time", *map(str, frame.columns)], rows)
            if len(one) > SHOWN:
                print(f"... {len(one) - SHOWN} more time steps; --out FILE writes all, intervals too")
    else:
        print(f"{len(result)} series, {sum(map(len, result))} time steps written to {out}")
    print(f"{result.model}:{result.version}  {result.digest}\nrequest id {result.request_id}")
    for one in result:
        for note in one.warnings:
            print(f"note: {one.id}: {note.message}")


def _as_json(result: ForecastResult) -> dict[str, Any]:
    return {
        "model": result.model,
        "version": result.version,
        "digest": result.digest,
        "request_id": result.request_id,
        "series": [
            {
                "id": one.id,
                "timestamps": None if one.timestamps is None else [str(at) for at in one.to_frame().index],
                "values": {name: values.tolist() for name, values in one.values.items()},
                "intervals": [
                    {
                        "level": bounds.level,
                        "method": bounds.method,
                        "lower": {name: values.tolist() for name, values in bounds.lower.items()},
                        "upper": {name: values.tolist() for name, values in bounds.upper.items()},
                    }
                    for bounds in one.intervals
                ],
                "filled": None if one.filled is None else vars(one.filled),
                "warnings": [{"code": note.code, "message": note.message} for note in one.warnings],
            }
            for one in result
        ],
    }
