"""`pressroom backtest`: what a served model would have forecast, against what happened: rolling origins over a file."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pressroom.call import address_of, only_model, refuse
from pressroom.forecast import ApiKey, AsJson, Grpc, Missing, Model, Url
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
    percentages,
    read_histories,
    write_table,
)

if TYPE_CHECKING:
    import pandas as pd
    from pressroom_client import BacktestResult, Scores

_EXAMPLE = """\b
Example:
  pressroom backtest data/ett/ETTh1.csv --model itransformer-etth1 --windows 20 --scale-rows 0:8640"""


def backtest(
    file: TableFile,
    model: Model = None,
    url: Url = None,
    grpc: Grpc = False,
    horizon: Annotated[int | None, typer.Option(min=1, help="Time steps compared. Default: the model's.")] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="Time steps from one origin to the next. Default: the horizon.")
    ] = None,
    windows: Annotated[int | None, typer.Option(min=1, help="At most this many, the latest. Default: all.")] = None,
    levels: Annotated[str, typer.Option(help="Intervals whose coverage is measured; empty: none.")] = "80,95",
    interval: Annotated[str | None, typer.Option(help="split (default) or adaptive.")] = None,
    season: Annotated[int | None, typer.Option(min=1, help="Steps of MASE's naive forecast. Default: a day.")] = None,
    scale_rows: Annotated[
        str | None,
        typer.Option(metavar="FIRST:END", help="Divide by these rows' standard deviation, as papers do."),
    ] = None,
    truths: Annotated[
        bool, typer.Option("--truths", help="Send the truths too: the server's coverage gauge follows.")
    ] = False,
    missing: Missing = None,
    columns: Columns = None,
    id_column: IdColumn = None,
    time_column: TimeColumn = None,
    tz: TimeZone = None,
    variable_column: VariableColumn = None,
    value_column: ValueColumn = "y",
    api_key: ApiKey = None,
    by: Annotated[str, typer.Option(help="Table by column or by step.")] = "column",
    out: Annotated[Path | None, typer.Option(help="Write the table to this csv or parquet file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw errors and coverage by step; needs matplotlib.")] = None,
    as_json: AsJson = False,
) -> None:
    """Backtest a served forecaster on a csv or parquet file."""
    from pressroom_client import BacktestOptions, Client, PressroomError, UsageError

    layout = Layout(columns=columns, id=id_column, time=time_column, variable=variable_column, value=value_column)
    histories = read_histories(file, layout)
    request = {key: value for key, value in (("missing", missing), ("interval", interval)) if value is not None}
    options = BacktestOptions(
        horizon=horizon,
        stride=stride,
        windows=windows,
        levels=percentages(levels),
        season=season,
        scale=_scale(histories, scale_rows),
        truths=truths,
        request=request,
    )
    try:
        with Client(address_of(url, grpc), api_key=api_key) as client:
            sent = {key: in_zone(frame, tz) for key, frame in histories.items()}
            result = client.backtest(sent, model=model or only_model(client), options=options)
            table = result.table(by)
    except PressroomError as error:
        refuse(error, as_json, 2 if isinstance(error, UsageError) else 1)
    if out is not None:
        write_table(table, out)
    if plot is not None:
        from pressroom.plots import draw_backtest

        draw_backtest(result, plot)
    _show(result, table, as_json)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=_EXAMPLE)(backtest)


def _scale(histories: dict[str, pd.DataFrame], rows: str | None) -> dict[str, float] | None:
    """Population standard deviation of the named rows, by column."""
    if rows is None:
        return None
    found = re.fullmatch(r"(\d+):(\d+)", rows)
    if not found or len(histories) != 1:
        what = f"{rows!r} is not FIRST:END" if not found else "the file holds several series"
        raise typer.BadParameter(what, param_hint="--scale-rows")
    (frame,) = histories.values()
    part = frame.iloc[int(found[1]) : int(found[2])].select_dtypes("number")
    if part.empty:
        raise typer.BadParameter(f"rows {rows} are not in the file", param_hint="--scale-rows")
    return {str(name): float(value) for name, value in part.std(ddof=0).items()}


def _show(result: BacktestResult, table: pd.DataFrame, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(result))
        return
    rows = [
        [str(key), *(f"{value:.4f}" for value in row)] for key, row in zip(table.index, table.to_numpy(), strict=True)
    ]
    print_table([str(table.index.name), *map(str, table.columns)], rows)
    first, last = result.origins[0], result.origins[-1]
    print(f"{result.model}:{result.version}, {len(result)} windows, first forecast {first[1]}, last {last[1]}")


def _as_json(result: BacktestResult) -> dict[str, Any]:
    return {
        "model": result.model,
        "version": result.version,
        "windows": len(result),
        "overall": _plain(result.overall),
        "by_column": {name: _plain(one) for name, one in result.by_column.items()},
        "by_step": [_plain(one) for one in result.by_step],
    }


def _plain(found: Scores) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in found.as_dict().items()}
