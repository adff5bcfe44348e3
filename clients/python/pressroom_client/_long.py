"""Long frames: one row per series and time (and perhaps variable), as wide frames and back. Needs pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from ._types import ForecastResult


def from_long(
    frame: pd.DataFrame,
    *,
    id: str | None = "unique_id",
    time: str = "ds",
    variable: str | None = None,
    value: str = "y",
) -> dict[str, pd.DataFrame]:
    """A long frame as wide frames by id, which `forecast`, `send_truth` and `backtest` take.

    id        column that names the series; None: all rows are one series, called "series"
    time      column of points in time; rows of one series are put in its order. Whole numbers one apart only count
              the rows, others are epoch seconds
    variable  column that names the variate of a row, whose number is in `value`; variates become columns in the order
              they first appear. None: every further column is a variate already

    Series may differ in length and time. Raises UsageError for a column that is not there, a row without an id, or a
    cell that is there twice.
    """
    wanted = [name for name in (id, time, variable, value if variable is not None else None) if name is not None]
    if missing := [name for name in wanted if name not in frame.columns]:
        raise UsageError(f"the frame has no column {missing[0]!r}", hint=f"it has {list(frame.columns)}")
    if id is not None and (nameless := frame[id].isna()).any():
        raise UsageError(f"row {int(nameless.to_numpy().argmax())} has no {id}", hint="name its series, or drop it")
    groups = [("series", frame)] if id is None else [(str(key), part) for key, part in frame.groupby(id, sort=False)]
    return {key: _wide(part, key, id, time, variable, value) for key, part in groups}


def to_long(result: ForecastResult, *, id: str = "unique_id", time: str = "ds") -> pd.DataFrame:
    """Every series of a forecast in one frame: its id, time, a column per variate, and its bounds beside it.

    Bounds go by the names OT-lo-80 and OT-hi-80.
    """
    from ._frames import pandas

    parts = []
    for key, forecast in result.frames.items():
        part = forecast.rename_axis(time).reset_index()
        part.insert(0, id, key)
        parts.append(part)
    for part, forecast_of in zip(parts, result, strict=True):
        for interval in forecast_of.intervals:
            for name in forecast_of.values:
                part[f"{name}-lo-{interval.level}"] = interval.lower[name]
                part[f"{name}-hi-{interval.level}"] = interval.upper[name]
    long: pd.DataFrame = pandas().concat(parts, ignore_index=True)
    return long


def _wide(part: Any, key: str, id: str | None, time: str, variable: str | None, value: str) -> Any:
    cells = [time] if variable is None else [time, variable]
    if (twice := part.duplicated(cells)).any():
        found = part.loc[twice, cells].iloc[0].tolist()
        raise UsageError(f"series {key!r} has {found} twice", hint="drop or aggregate one of the rows")
    if variable is None:
        wide = part.drop(columns=[name for name in (id,) if name is not None]).set_index(time).sort_index()
    else:
        order = list(dict.fromkeys(part[variable]))
        wide = part.pivot(index=time, columns=variable, values=value)[order].rename_axis(columns=None)
    return epochs_as_column(wide)


def epochs_as_column(wide: pd.DataFrame) -> pd.DataFrame:
    """A frame whose index holds numbers says that they are time, where they do more than count its rows.

    They become a column `timestamp`: an index of numbers is taken for no time at all.
    """
    from ._frames import pandas

    index = wide.index
    if not pandas().api.types.is_numeric_dtype(index) or (index[1:] - index[:-1] == 1).all():
        return wide
    return wide.rename_axis("timestamp").reset_index()
