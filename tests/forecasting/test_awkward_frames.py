"""Frames as people have them: what exactly comes out of each, or why it is refused.

The forecaster goes on along the line through its last two values, eight hours in, four out; so every answer can be
written down. Requests are written and answers read by the client's own code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from persistence import Line8, spec_of
from pressroom_client import History, UsageError, from_long

from models.errors import InputError

HOURS = pd.date_range("2026-01-05", periods=8, freq="h")
BERLIN = "Europe/Berlin"
Make = Callable[..., Line8]


def rising(index: Any = HOURS, start: float = 0.0) -> pd.DataFrame:
    """a goes up by 1 a row, b down by 2."""
    n = np.arange(len(index), dtype=float)
    return pd.DataFrame({"a": start + n, "b": -2 * n}, index=index)


def text(index: pd.DatetimeIndex, style: str = "%Y-%m-%d %H:%M") -> pd.Index:
    return pd.Index([stamp.strftime(style) for stamp in index])


def without(frame: pd.DataFrame, *rows: int) -> pd.DataFrame:
    return frame.drop(frame.index[list(rows)])


def holed(*cells: tuple[int, str], length: int = 8) -> pd.DataFrame:
    frame = rising(pd.date_range("2026-01-05", periods=length, freq="h"))
    for row, column in cells:
        frame.loc[frame.index[row], column] = np.nan
    return frame


def history(index: Any, tz: str | None = None) -> History:
    frame = rising(index)
    return History(values={name: frame[name].to_numpy() for name in frame}, timestamps=list(index), tz=tz)


@dataclass(frozen=True)
class Good:
    """A frame and its answer: values of `a`, first time step, what was filled, warnings."""

    frame: Any
    a: list[float]
    first: str | None
    options: dict[str, Any] = field(default_factory=dict)
    filled: tuple[int, dict[str, int]] | None = None
    warnings: tuple[str, ...] = ()
    frequency: str = "h"
    columns: tuple[str, ...] | None = ("a", "b")


SPRING = pd.date_range("2026-03-29 00:00", periods=8, freq="h", tz=BERLIN)  # 02:00 does not exist
AUTUMN = pd.date_range("2026-10-25 00:00", periods=8, freq="h", tz=BERLIN)  # 02:00 occurs twice
EVE = pd.date_range("2026-03-28 18:00", periods=8, freq="h", tz=BERLIN)  # the horizon crosses the change
DAYS = pd.date_range("2026-03-26", periods=8, freq="D", tz=BERLIN)  # one day has 23 hours
MONTHS = pd.date_range("2025-06-01", periods=8, freq="MS")
FFILL, LINEAR = {"missing": "ffill"}, {"missing": "linear"}

GOOD: dict[str, Good] = {
    "a wide frame": Good(rising(), [8, 9, 10, 11], "2026-01-05 08:00:00"),
    "time in a column `date`": Good(rising().rename_axis("date").reset_index(), [8, 9, 10, 11], "2026-01-05 08:00:00"),
    "time as text": Good(rising(text(HOURS)), [8, 9, 10, 11], "2026-01-05 08:00:00"),
    "a period index": Good(rising(HOURS.to_period("h")), [8, 9, 10, 11], "2026-01-05 08:00:00"),
    "no time at all": Good(rising(range(8)), [8, 9, 10, 11], None),
    "whole numbers": Good(rising().astype(int), [8, 9, 10, 11], "2026-01-05 08:00:00"),
    "pandas' nullable floats": Good(rising().astype("Float64"), [8, 9, 10, 11], "2026-01-05 08:00:00"),
    "a longer history is cut": Good(
        rising(pd.date_range("2026-01-05", periods=20, freq="h")), [20, 21, 22, 23], "2026-01-05 20:00:00",
        warnings=("history_truncated",),
    ),
    "a shorter horizon": Good(rising(), [8, 9], "2026-01-05 08:00:00", {"horizon": 2}),
    "a longer horizon rolls out on request": Good(
        rising(), [8, 9, 10, 11, 12, 13, 14, 15, 16, 17], "2026-01-05 08:00:00", {"horizon": 10, "roll_out": True},
        warnings=("rolled_out",),
    ),
    "one column of the answer": Good(rising(), [8, 9, 10, 11], "2026-01-05 08:00:00", {"columns": ["a"]}),
    "target only, to a model of any columns": Good(
        rising()[["a"]], [8, 9, 10, 11], "2026-01-05 08:00:00", columns=None
    ),
    "a zone": Good(rising(HOURS.tz_localize("UTC")), [8, 9, 10, 11], "2026-01-05 08:00:00+00:00"),
    "a zone across the skipped hour": Good(rising(SPRING), [8, 9, 10, 11], "2026-03-29 09:00:00+02:00"),
    "a zone across the repeated hour": Good(rising(AUTUMN), [8, 9, 10, 11], "2026-10-25 07:00:00+01:00"),
    "a horizon across the skipped hour": Good(rising(EVE), [8, 9, 10, 11], "2026-03-29 03:00:00+02:00"),
    "local text across the skipped hour": Good(
        history(text(SPRING), BERLIN), [8, 9, 10, 11], "2026-03-29 09:00:00"
    ),
    "local text across the repeated hour": Good(
        history(text(AUTUMN), BERLIN), [8, 9, 10, 11], "2026-10-25 07:00:00"
    ),
    "epoch seconds": Good(
        history(np.arange(8) * 3600 + 1_767_571_200), [8, 9, 10, 11], "2026-01-05 08:00:00+00:00"
    ),
    "text with Z": Good(history(text(HOURS, "%Y-%m-%dT%H:%MZ")), [8, 9, 10, 11], "2026-01-05 08:00:00+00:00"),
    "days in a zone, one of 23 hours": Good(
        rising(DAYS), [8, 9, 10, 11], "2026-04-03 00:00:00+02:00", frequency="d"
    ),
    "months": Good(rising(MONTHS), [8, 9, 10, 11], "2026-02-01 00:00:00", frequency="MS"),
    "a missing value, ffill": Good(
        holed((7, "a")), [6, 6, 6, 6], "2026-01-05 08:00:00", FFILL, (0, {"a": 1}), ("history_filled",)
    ),
    "a missing value, linear": Good(
        holed((3, "a"), (4, "a")), [8, 9, 10, 11], "2026-01-05 08:00:00", LINEAR, (0, {"a": 2}), ("history_filled",)
    ),
    "a missing time step, ffill": Good(
        without(rising(pd.date_range("2026-01-05", periods=9, freq="h")), 7), [10, 12, 14, 16], "2026-01-05 09:00:00",
        FFILL, (1, {"a": 1, "b": 1}), ("history_filled",),
    ),
    "missing time steps, linear": Good(
        without(rising(pd.date_range("2026-01-05", periods=9, freq="h")), 3, 5), [9, 10, 11, 12],
        "2026-01-05 09:00:00", LINEAR, (2, {"a": 2, "b": 2}), ("history_filled",),
    ),
    "a missing value without time, linear": Good(
        holed((2, "b")).reset_index(drop=True), [8, 9, 10, 11], None, LINEAR, (0, {"b": 1}), ("history_filled",)
    ),
    "a gap in months, linear": Good(
        without(rising(MONTHS.append(MONTHS[-1:] + pd.DateOffset(months=1))), 4), [9, 10, 11, 12],
        "2026-03-01 00:00:00", LINEAR, (1, {"a": 1, "b": 1}), ("history_filled",), frequency="MS",
    ),
    "a gap across the skipped hour, linear": Good(
        without(rising(pd.date_range("2026-03-29 00:00", periods=9, freq="h", tz=BERLIN)), 2), [9, 10, 11, 12],
        "2026-03-29 10:00:00+02:00", LINEAR, (1, {"a": 1, "b": 1}), ("history_filled",),
    ),
    "a policy with nothing to fill": Good(rising(), [8, 9, 10, 11], "2026-01-05 08:00:00", LINEAR, (0, {})),
    "a gap before the rows that are read": Good(
        without(rising(pd.date_range("2026-01-05", periods=12, freq="h")), 1), [12, 13, 14, 15], "2026-01-05 12:00:00",
        FFILL, (0, {}), ("history_truncated",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
async def test_a_good_frame_has_this_answer(line: Make, name: str) -> None:
    good = GOOD[name]
    one = line(spec=spec_of(good.frequency, good.columns), calibrated=good.columns is not None)
    (forecast,) = await one.ask(good.frame, **good.options)
    np.testing.assert_allclose(forecast.values["a"], good.a, atol=1e-4)
    index = forecast.to_frame().index
    assert (None if forecast.timestamps is None else str(index[0])) == good.first
    assert (forecast.filled and (forecast.filled.timestamps, forecast.filled.values)) == good.filled
    assert tuple(note.code for note in forecast.warnings) == good.warnings
    assert list(forecast.values) == good.options.get(
        "columns", [name for name in ("a", "b") if name in forecast.values]
    )


@dataclass(frozen=True)
class Bad:
    """A frame and its refusal: code, field, and words of the message or hint."""

    frame: Any
    code: str
    field: str
    says: str
    options: dict[str, Any] = field(default_factory=dict)
    frequency: str = "h"


MIDDAY = pd.date_range("2026-01-05", periods=8, freq="15min")
BAD: dict[str, Bad] = {
    "too short": Bad(rising(HOURS[:5]), "history_too_short", "series[0].values", "got 5 time steps"),
    "too short even when filled": Bad(
        without(rising(HOURS[:6]), 2), "history_too_short", "series[0].values", "got 6", LINEAR
    ),
    "a longer horizon": Bad(rising(), "horizon_too_long", "horizon", "roll_out", {"horizon": 5}),
    "rolled out too far": Bad(rising(), "horizon_too_long", "horizon", "40", {"horizon": 41, "roll_out": True}),
    "rolled out with intervals": Bad(
        rising(), "horizon_too_long", "horizon", "calibrated for 4", {"horizon": 8, "roll_out": True, "levels": [80]}
    ),
    "target only, to a model of both": Bad(rising()[["a"]], "columns_missing", "series[0].values", "missing: b"),
    "a categorical column more": Bad(
        rising().assign(day="Monday"), "columns_unexpected", "series[0].values", "day"
    ),
    "columns in another order": Bad(rising()[["b", "a"]], "columns_reordered", "series[0].values", "b, a"),
    "an unknown column asked back": Bad(rising(), "columns_unexpected", "columns[0]", "'c'", {"columns": ["c"]}),
    "a missing value": Bad(holed((3, "b")), "value_not_finite", "series[0].values.b[3]", "ffill"),
    "a missing time step": Bad(
        without(rising(pd.date_range("2026-01-05", periods=9, freq="h")), 3), "timestamps_gap",
        "series[0].timestamps[3]", "1 missing",
    ),
    "local text across the skipped hour, without its zone": Bad(
        history(text(SPRING)), "timestamps_gap", "series[0].timestamps[2]", "clocks skip needs offsets, or `tz`",
    ),
    "a policy nobody knows": Bad(holed((3, "b")), "invalid_request", "missing", "linear", {"missing": "zero"}),
    "nothing before the gap": Bad(holed((0, "a")), "value_not_finite", "series[0].values.a", "earlier rows", FFILL),
    "nothing behind the gap, linear": Bad(holed((7, "a")), "value_not_finite", "series[0].values.a", "ffill", LINEAR),
    "most of a column missing": Bad(
        holed(*((row, "a") for row in range(1, 6))), "value_not_finite", "series[0].values.a", "5 of the 8", FFILL
    ),
    "infinity is not missing": Bad(
        History(values={"a": [0, 1, 2, 3, 4, 5, 6, 1e308], "b": [0.0] * 8}), "value_out_of_range", "series[0].values",
        "too large", FFILL,
    ),
    "rows out of order, whatever the policy": Bad(
        rising(HOURS[[0, 1, 2, 4, 3, 5, 6, 7]]), "timestamps_unsorted", "series[0].timestamps[4]", "earlier", LINEAR
    ),
    "a row twice, whatever the policy": Bad(
        rising(HOURS[[0, 1, 2, 3, 3, 4, 5, 6]]), "timestamps_duplicate", "series[0].timestamps[4]", "repeats", FFILL
    ),
    "another frequency": Bad(rising(MIDDAY), "frequency_mismatch", "series[0].timestamps[1]", "900 s"),
    "stamps beside the grid": Bad(
        rising(HOURS[:7].append(pd.DatetimeIndex(["2026-01-05 07:20"]))), "frequency_mismatch",
        "series[0].timestamps[7]", "4800 s", LINEAR,
    ),
    "local text with the skipped hour": Bad(
        history(text(pd.date_range("2026-03-29 00:00", periods=8, freq="h")), BERLIN), "timestamps_invalid",
        "series[0].timestamps[2]", "does not exist in Europe/Berlin",
    ),
    "local text across the repeated hour without its zone": Bad(
        history(text(AUTUMN)), "timestamps_duplicate", "series[0].timestamps[3]", "clocks repeat needs offsets, or `tz`"
    ),
    "a zone nobody knows": Bad(
        history(text(HOURS), "Europe/Bielefeld"), "timestamps_invalid", "series[0].tz", "Europe/Bielefeld"
    ),
    "a level of 100": Bad(rising(), "invalid_request", "levels[0]", "1 to 99", {"levels": [100]}),
    "the same level twice": Bad(rising(), "invalid_request", "levels[1]", "repeated", {"levels": [80, 80]}),
    "an adaptive level that is not watched": Bad(
        rising(), "invalid_request", "levels[0]", "50, 80, 90, 95, 99", {"levels": [81], "interval": "adaptive"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_frame_is_refused_like_this(line: Make, name: str) -> None:
    bad = BAD[name]
    one = line(spec=spec_of(bad.frequency))
    with pytest.raises(InputError) as refusal:
        await one.ask(bad.frame, **bad.options)
    error = refusal.value
    assert (error.code, error.field) == (bad.code, bad.field), error.message
    assert bad.says in f"{error.message} {error.hint}"


async def test_a_long_frame_of_series_of_different_lengths(line: Make) -> None:
    short, long = rising(HOURS), rising(pd.date_range("2026-01-05", periods=11, freq="h"), start=100)
    table = pd.concat([long.assign(unique_id="north"), short.assign(unique_id="south")]).rename_axis("ds").reset_index()
    result = await line().ask(from_long(table))
    assert [one.id for one in result] == ["north", "south"]
    np.testing.assert_allclose(result["north"].values["a"], [111, 112, 113, 114])
    np.testing.assert_allclose(result["south"].values["a"], [8, 9, 10, 11])
    assert [str(frame.index[0]) for frame in result.frames.values()] == ["2026-01-05 11:00:00", "2026-01-05 08:00:00"]


async def test_a_molten_frame_has_its_variates_in_rows(line: Make) -> None:
    molten = rising().rename_axis("ds").reset_index().melt("ds", value_name="y").sample(frac=1, random_state=0)
    wide = from_long(molten, id=None, variable="variable")["series"][["a", "b"]]
    pd.testing.assert_frame_equal(wide, rising(), check_names=False, check_freq=False, check_index_type=False)
    (forecast,) = await line().ask(wide)
    np.testing.assert_allclose(forecast.values["b"], [-16, -18, -20, -22])


async def test_epoch_seconds_of_a_long_frame_are_time_and_a_count_is_none(line: Make) -> None:
    table = rising(range(8)).rename_axis("ds").reset_index().assign(unique_id="x")
    (counted,) = await line().ask(from_long(table))
    assert counted.timestamps is None
    (timed,) = await line().ask(from_long(table.assign(ds=1_767_571_200 + 3600 * table["ds"])))
    assert str(timed.to_frame().index[0]) == "2026-01-05 08:00:00+00:00"
    np.testing.assert_allclose(timed.values["a"], [8, 9, 10, 11])


def test_a_row_of_a_long_frame_without_a_name_is_not_left_out() -> None:
    table = rising().rename_axis("ds").reset_index().assign(unique_id=["x"] * 5 + [None] + ["x"] * 2)
    with pytest.raises(UsageError, match="row 5 has no unique_id"):
        from_long(table)
