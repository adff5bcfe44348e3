"""Tables that verbs read and write: csv and parquet, wide and long, as histories the client takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from pressroom_client import History

TIME_COLUMNS = ("date", "timestamp")
PARQUET = (".parquet", ".pq")

TableFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="A csv or parquet file, one row per time step (or long).")
]
Columns = Annotated[
    str | None, typer.Option(help="Columns to send, in the model's order, comma separated. Default: all.")
]
IdColumn = Annotated[str | None, typer.Option(help="Long file: column that names the series.")]
TimeColumn = Annotated[
    str | None, typer.Option(help="Column of time. Default: date or timestamp, else a first column without numbers.")
]
VariableColumn = Annotated[str | None, typer.Option(help="Long file: column that names each row's variate ...")]
ValueColumn = Annotated[str, typer.Option(help="... and the column of its number.")]
TimeZone = Annotated[
    str | None, typer.Option("--tz", help="Time zone of time steps without an offset, e.g. Europe/Berlin.")
]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a table holds its series; everything None: one wide table."""

    columns: str | None = None
    id: str | None = None
    time: str | None = None
    variable: str | None = None
    value: str = "y"


def read_histories(file: Path, layout: Layout) -> dict[str, pd.DataFrame]:
    """The series of a file as wide frames by id; one without a name is called by the file's stem."""
    import pandas as pd
    from pressroom_client import UsageError, from_long

    frame = _read(file)
    if layout.id is None and layout.variable is None:
        wide = _timed(frame) if layout.time is None else _indexed(frame, layout.time, file.name)
        return {file.stem: choose(wide, layout.columns, file.name)}
    if isinstance(frame.index, pd.DatetimeIndex):
        frame = frame.reset_index(names=str(frame.index.name or "ds"))
    time = layout.time or next((name for name in TIME_COLUMNS if name in frame.columns), "ds")
    try:
        found = from_long(frame, id=layout.id, time=time, variable=layout.variable, value=layout.value)
    except UsageError as error:
        raise typer.BadParameter(f"{error.message}; {error.hint}", param_hint="FILE") from None
    return {key: choose(part, layout.columns, file.name) for key, part in found.items()}


def read_table(file: Path) -> pd.DataFrame:
    """A wide csv or parquet file, its time column as the client knows it: `date`, `timestamp`, or the index."""
    return _timed(_read(file))


def _read(file: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_parquet(file) if file.suffix in PARQUET else pd.read_csv(file)
    except ImportError:
        raise typer.BadParameter(f"{file.name}: {PYARROW}", param_hint="FILE") from None
    except (OSError, ValueError, UnicodeError) as error:  # pandas' parser errors are ValueErrors
        kind = "parquet file" if file.suffix in PARQUET else "csv"
        raise typer.BadParameter(
            f"{file.name} is not a {kind}: {str(error).splitlines()[0]}", param_hint="FILE"
        ) from None
    if frame.empty:
        raise typer.BadParameter(f"{file.name} holds no rows", param_hint="FILE")
    if frame.shape[1] == 1 and ";" in str(frame.columns[0]):
        raise typer.BadParameter(f"{file.name} separates columns by semicolons, not commas", param_hint="FILE")
    return frame


def _timed(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    first = frame.columns[0]
    named = any(name in frame.columns for name in TIME_COLUMNS) or isinstance(frame.index, pd.DatetimeIndex)
    return frame if named or pd.api.types.is_numeric_dtype(frame[first]) else frame.set_index(first)


PYARROW = "parquet needs pyarrow: pip install pyarrow"


def choose(frame: pd.DataFrame, columns: str | None, file: str) -> pd.DataFrame:
    """The columns to send, time among them; a column of numbers with something else in it is refused by place."""
    if columns is None:
        _check_numbers(frame, file)
        return frame
    wanted = names(columns)
    if missing := [name for name in wanted if name not in frame.columns]:
        raise typer.BadParameter(
            f"{file} has no column {missing[0]!r}; it has {', '.join(map(str, frame.columns))}", param_hint="--columns"
        )
    time = [name for name in TIME_COLUMNS if name in frame.columns and name not in wanted]
    chosen = frame[[*time, *wanted]]
    _check_numbers(chosen, file)
    return chosen


def _check_numbers(frame: pd.DataFrame, file: str) -> None:
    """One '-' makes text of a whole column; the server could only say that its first value is text."""
    import pandas as pd

    for name in [name for name in frame.columns if name not in TIME_COLUMNS]:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            continue
        fault = pd.to_numeric(column, errors="coerce").isna() & column.notna()
        if fault.any() and fault.mean() < 0.5:
            row = int(fault.to_numpy().argmax())
            message = f"{file}: column {name} has {column.iloc[row]!r} in row {row} (from 0), which is no number"
            raise typer.BadParameter(message, param_hint="FILE")


def in_zone(frame: pd.DataFrame, zone: str | None) -> pd.DataFrame | History:
    """A wide frame as it is sent: with a zone, its time steps are what that zone's clocks showed."""
    if zone is None:
        return frame
    from pressroom_client import History

    named = next((name for name in TIME_COLUMNS if name in frame.columns), None)
    time, values = (frame.index, frame) if named is None else (frame[named], frame.drop(columns=named))
    numbers = values.select_dtypes("number").columns  # pandas' own dtypes have a missing value that is not NaN
    columns = {
        str(name): values[name].to_numpy("float64", na_value=float("nan")) if name in numbers else values[name]
        for name in values.columns
    }
    return History(values=columns, timestamps=list(time), tz=zone)


def names(text: str) -> list[str]:
    """The entries of a comma separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def percentages(text: str | None) -> list[int]:
    """The levels of `80,95`."""
    try:
        return [int(part) for part in names(text or "")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of whole percentages", param_hint="--levels") from None


def write_table(frame: pd.DataFrame, out: Path, option: str = "--out") -> None:
    """Write csv or parquet, by the name's ending; a folder that does not exist is made."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(out) if out.suffix in PARQUET else frame.to_csv(out)
    except ImportError:
        raise typer.BadParameter(f"{out.name}: {PYARROW}", param_hint=option) from None
    except OSError as error:
        raise typer.BadParameter(f"{out} cannot be written: {error.strerror or error}", param_hint=option) from None


def _indexed(frame: Any, time: str, file: str) -> pd.DataFrame:
    import pandas as pd

    flat = frame.reset_index() if time not in frame.columns else frame
    if time not in flat.columns:
        raise typer.BadParameter(f"{file} has no column {time!r}", param_hint="--time-column")
    if pd.api.types.is_numeric_dtype(flat[time]):  # epoch seconds: an index of numbers is taken for no time at all
        renamed: pd.DataFrame = flat.rename(columns={time: TIME_COLUMNS[1]})
        return renamed
    indexed: pd.DataFrame = flat.set_index(time)
    return indexed
