"""Data frames in and out; the only module that needs pandas (2 or 3).

In   a wide frame, one column per variate. Time is its DatetimeIndex or PeriodIndex, else a column named `date` or
     `timestamp`, else an index of text, else absent
Out  the same columns in the same order, on a DatetimeIndex that goes by the name time had, in the history's zone
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UsageError
from ._history import History, Sent, series

if TYPE_CHECKING:
    import pandas as pd

    from ._types import Forecast

TIME_COLUMNS = ("date", "timestamp")


@dataclass(frozen=True)
class Template:
    """What a frame loses on the wire: labels that are not text, the name of time, the zone."""

    labels: tuple[Hashable, ...]
    time_name: Hashable
    zone: tzinfo | None
    columns_name: Hashable = None


def pandas() -> Any:
    """The pandas module, or UsageError that says how to get it."""
    try:
        import pandas
    except ImportError as error:
        hint = 'pip install "pressroom-client[pandas]", or read .values and .timestamps'
        raise UsageError("frames need pandas, which is not installed", hint=hint) from error
    return pandas


def from_frame(frame: pd.DataFrame | pd.Series[Any], id: str | None, where: str) -> Sent:
    """A frame (or one named column) as a series on the wire."""
    wide: Any = frame.to_frame() if isinstance(frame, pandas().Series) else frame
    time, time_name, position = _time(wide)
    columns = [i for i in range(wide.shape[1]) if i != position]
    labels = tuple(wide.columns[i] for i in columns)
    names = [str(label) for label in labels]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise UsageError(f"columns {twice} occur twice", field=f"{where}.values", hint="rename or drop one of each")
    values = {name: _column(wide.iloc[:, i]) for name, i in zip(names, columns, strict=True)}
    zone = getattr(getattr(time, "tz", None), "key", None)  # its name, if it is one of the time zone database's
    history = History(values=values, timestamps=time, tz=zone)
    template = Template(labels, time_name, getattr(time, "tz", None), wide.columns.name)
    return Sent(id=id, wire=series(history, id, where), template=template)


def to_frame(forecast: Forecast, template: Template | None) -> pd.DataFrame:
    """float64 [H, C] on a DatetimeIndex, or on a count from 0 if the forecast has no timestamps."""
    labels = {str(label): label for label in template.labels} if template else {}
    values = dict(enumerate(forecast.values.values()))
    frame: pd.DataFrame = pandas().DataFrame(values, index=_index(forecast, template))
    columns = [labels.get(name, name) for name in forecast.values]
    frame.columns = pandas().Index(columns, name=template.columns_name if template else None)
    return frame


def _time(frame: pd.DataFrame) -> tuple[Any, Hashable, int | None]:
    """Points in time, the name they go by, and the position of their column (None: the index)."""
    pd = pandas()
    index = frame.index
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        return _stamps(index), index.name, None
    for name in TIME_COLUMNS:
        if name in frame.columns:
            position = frame.columns.get_loc(name)
            if not isinstance(position, int):
                raise UsageError(f"column {name!r} occurs twice", field="timestamps", hint="rename or drop one")
            column = frame.iloc[:, position]
            stamps = _stamps(pd.DatetimeIndex(column)) if column.dtype.kind == "M" else column.to_numpy()
            return stamps, name, position
    # A csv read with index_col=0 but without parse_dates has its time as text.
    return (index.to_numpy() if pd.api.types.is_string_dtype(index) and len(index) else None), index.name, None


def _stamps(index: pd.DatetimeIndex) -> Any:
    """Without a zone as datetime64; with one as timestamps, which know their offset."""
    return index.to_numpy() if index.tz is None else index


def _column(column: pd.Series[Any]) -> np.ndarray:
    """One column as an array; a missing value of pandas' own dtypes becomes NaN."""
    types = pandas().api.types
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return column.astype(object).where(column.notna(), None).to_numpy()


def _index(forecast: Forecast, template: Template | None) -> Any:
    name = template.time_name if template else None
    if forecast.timestamps is None:
        return pandas().RangeIndex(len(forecast), name=name)
    index = pandas().DatetimeIndex(forecast.timestamps, name=name)
    if forecast.zone is None:
        return index
    return index.tz_localize("UTC").tz_convert((template and template.zone) or forecast.zone)
