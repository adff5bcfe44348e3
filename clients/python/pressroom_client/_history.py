"""Histories: what a caller has, as the series the server reads.

One series on the wire: {"id"?, "timestamps"? | "start" + "freq"?, "values": {column: [L numbers]},
"future_timestamps"?}. Nothing is judged here that the server judges better (length, gaps, column names); a NaN goes out
as null, so that the server can say where it is. Only what cannot be written as a series is refused, as UsageError.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ._errors import UsageError
from ._timestamps import stamp_to_wire, to_wire

if TYPE_CHECKING:
    import pandas as pd

    from ._frames import Template

One: TypeAlias = "History | pd.DataFrame | pd.Series[Any] | Mapping[str, ArrayLike]"
Histories: TypeAlias = "One | Mapping[str, History | pd.DataFrame] | Sequence[One]"


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """One series in plain Python or numpy, raw units.

    values      column -> [L] numbers, in the order the model knows them
    timestamps  [L] points in time: ISO 8601 text, datetimes, datetime64, or whole epoch seconds
    start       instead of timestamps: the first one ...
    freq        ... and the time step, for example "h" or "15min"
    id          comes back with the forecast
    future_timestamps  of the model's whole horizon, as timestamps; default: they follow at the frequency. For models
                whose calendar goes over the horizon, where its wall clock changes its offset
    """

    values: Mapping[str, ArrayLike]
    timestamps: Iterable[Any] | None = None
    start: Any = None
    freq: str | None = None
    id: str | None = None
    tz: str | None = None
    future_timestamps: Iterable[Any] | None = None

    def __post_init__(self) -> None:
        if self.timestamps is not None and self.start is not None:
            raise UsageError("got timestamps and start, expected one of them", field="timestamps")
        if (self.start is None) != (self.freq is None):
            raise UsageError("start and freq describe the timestamps together: give both or neither", field="start")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sent:
    """One series as it goes out, and how to give its forecast back."""

    id: str | None
    wire: dict[str, Any]
    template: Template | None = None


def normalise(histories: Histories) -> tuple[Sent, ...]:
    """Whatever `forecast` takes, as series in order.

    A mapping is several series by id if its values are frames or histories, else one series by column.
    """
    if isinstance(histories, Mapping):
        if histories and all(_is_series(value) for value in histories.values()):
            return tuple(_one(value, str(key), index) for index, (key, value) in enumerate(histories.items()))
        return (_one(histories, None, 0),)
    if isinstance(histories, Sequence) and not isinstance(histories, str):
        return tuple(_one(value, None, index) for index, value in enumerate(histories))
    return (_one(histories, None, 0),)


def _one(history: Any, id: str | None, index: int) -> Sent:
    where = f"series[{index}]"
    if _is_pandas(history):
        from ._frames import from_frame

        return from_frame(history, id, where)
    if isinstance(history, Mapping):
        history = History(values=history)
    if not isinstance(history, History):
        hint = "send a DataFrame, a History, a mapping of columns, or several of them"
        raise UsageError(f"got {type(history).__name__}, expected a history", field=where, hint=hint)
    id = history.id if id is None else id
    return Sent(id=id, wire=series(history, id, where))


def series(history: History, id: str | None, where: str) -> dict[str, Any]:
    """The wire form of one history."""
    wire: dict[str, Any] = {} if id is None else {"id": id}
    if history.timestamps is not None:
        wire["timestamps"] = to_wire(history.timestamps, f"{where}.timestamps")
    if history.start is not None:
        wire |= {"start": stamp_to_wire(history.start, f"{where}.start"), "freq": history.freq}
    if history.future_timestamps is not None:
        wire["future_timestamps"] = to_wire(history.future_timestamps, f"{where}.future_timestamps")
    if history.tz is not None:
        wire["tz"] = history.tz
    wire["values"] = {str(name): numbers(data, f"{where}.values.{name}") for name, data in history.values.items()}
    return wire


def numbers(data: ArrayLike, where: str) -> list[Any]:
    """[L] as JSON numbers; what is not finite becomes None, what is not numeric goes out as it is."""
    array = np.asarray(data)
    if array.ndim != 1:
        hint = "a history's values are one 1-D array per column"
        raise UsageError(f"got an array of shape {list(array.shape)}, expected [L]", field=where, hint=hint)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # a long double has no plain Python value
        values: list[Any] = array.tolist()
        return values if np.isfinite(array).all() else [_finite(value) for value in values]
    return [_finite(value) for value in array.tolist()] if array.dtype.kind == "O" else array.tolist()


def _finite(value: Any) -> Any:
    return None if isinstance(value, (float, np.floating)) and not math.isfinite(value) else value


def _is_series(value: Any) -> bool:
    return isinstance(value, History) or _is_frame(value)


def _is_frame(value: Any) -> bool:
    # Whoever holds a frame has imported pandas; asking sys.modules keeps it optional.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _is_pandas(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series))
