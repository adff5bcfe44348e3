"""Data frames there and back: order, labels, time, zone, missing values."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from pressroom_client import UsageError
from pressroom_client._forecast import forecast_call
from tiny_service import forecast as answer

HOURS = pd.date_range("2024-01-01", periods=5, freq="h")


def sent(history) -> list[dict]:
    return json.loads(forecast_call(history, model=None, version=None, horizon=None).body)["series"]


def there_and_back(history) -> pd.DataFrame:
    call = forecast_call(history, model=None, version=None, horizon=None)
    return call.read(json.dumps(answer(json.loads(call.body), "id")).encode(), "id").frame


def wide(index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame({"b": np.arange(5.0), "a": np.arange(5.0) * 2}, index=index)


def test_a_wall_clock_stays_one() -> None:
    assert sent(wide(HOURS))[0]["timestamps"][:2] == ["2024-01-01T00:00:00", "2024-01-01T01:00:00"]
    index = there_and_back(wide(HOURS)).index
    assert index.tz is None
    assert list(index) == list(pd.date_range("2024-01-01 05:00", periods=3, freq="h"))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "UTC"])
def test_a_zone_is_kept(zone: str) -> None:
    index = HOURS.tz_localize(zone)
    back = there_and_back(wide(index)).index
    assert str(back.tz) == zone
    assert list(back) == list(pd.date_range("2024-01-01 05:00", periods=3, freq="h", tz=zone))


def test_a_forecast_may_cross_into_summer_time() -> None:
    index = pd.date_range("2024-03-30 21:00", periods=5, freq="h", tz="Europe/Berlin")
    back = there_and_back(wide(index)).index
    assert [stamp.hour for stamp in back] == [3, 4, 5]  # 02:00 does not exist that night
    assert back[0] - index[-1] == pd.Timedelta("1h")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_resolution_is_sent_as_short_as_it_is(unit: str) -> None:
    assert sent(wide(HOURS.as_unit(unit)))[0]["timestamps"][0] == "2024-01-01T00:00:00"


def test_fractions_of_a_second_are_kept() -> None:
    index = pd.date_range("2024-01-01", periods=5, freq="250ms")
    assert sent(wide(index))[0]["timestamps"][1].startswith("2024-01-01T00:00:00.25")
    assert there_and_back(wide(index)).index[0] == pd.Timestamp("2024-01-01T00:00:01.25")


@pytest.mark.parametrize("name", ["date", "timestamp"])
def test_time_may_be_a_column(name: str) -> None:
    frame = wide(pd.RangeIndex(5))
    frame.insert(1, name, HOURS)
    assert list(sent(frame)[0]["values"]) == ["b", "a"]
    back = there_and_back(frame)
    assert (back.index.name, list(back.columns)) == (name, ["b", "a"])
    assert back.index[0] == pd.Timestamp("2024-01-01 05:00")


def test_a_time_column_may_be_text_as_a_csv_has_it() -> None:
    frame = wide(pd.RangeIndex(5)).assign(date=HOURS.strftime("%Y-%m-%d %H:%M:%S"))
    assert sent(frame)[0]["timestamps"][0] == "2024-01-01 00:00:00"
    assert there_and_back(frame).index[0] == pd.Timestamp("2024-01-01 05:00")


def test_a_time_column_may_have_a_zone_or_be_epoch_seconds() -> None:
    zoned = wide(pd.RangeIndex(5)).assign(date=HOURS.tz_localize("Asia/Tokyo"))
    assert str(there_and_back(zoned).index.tz) == "Asia/Tokyo"
    seconds = wide(pd.RangeIndex(5)).assign(date=np.arange(5) * 3600 + 1_704_067_200)
    assert sent(seconds)[0]["timestamps"][0] == 1_704_067_200
    assert there_and_back(seconds).index[0] == pd.Timestamp("2024-01-01 05:00", tz="UTC")


def test_an_index_of_text_or_periods_is_time() -> None:
    text = wide(pd.Index(HOURS.strftime("%Y-%m-%dT%H:%M:%S"), name="t"))
    assert there_and_back(text).index[0] == pd.Timestamp("2024-01-01 05:00")
    periods = wide(HOURS.to_period("h"))
    assert there_and_back(periods).index[0] == pd.Timestamp("2024-01-01 05:00")


def test_without_time_the_forecast_counts_from_0() -> None:
    frame = wide(pd.RangeIndex(5))
    assert "timestamps" not in sent(frame)[0]
    assert list(there_and_back(frame).index) == [0, 1, 2]


def test_column_labels_that_are_not_text_come_back() -> None:
    frame = pd.DataFrame(np.ones((5, 2)), index=HOURS, columns=pd.Index([7, 3], name="sensor"))
    assert list(sent(frame)[0]["values"]) == ["7", "3"]
    pd.testing.assert_index_equal(there_and_back(frame).columns, frame.columns)


def test_a_named_series_is_one_column() -> None:
    back = there_and_back(pd.Series(np.arange(5.0), index=HOURS, name="load"))
    assert list(back["load"]) == [5.0, 6.0, 7.0]


@pytest.mark.parametrize("dtype", ["float32", "int64", "Float64", "Int32"])
def test_every_numeric_dtype_is_sent_as_numbers(dtype: str) -> None:
    frame = wide(HOURS).astype(dtype)
    assert sent(frame)[0]["values"]["a"] == [0, 2, 4, 6, 8]
    assert there_and_back(frame).dtypes.tolist() == [np.float64, np.float64]


@pytest.mark.parametrize("dtype", ["float64", "Float64", "object"])
def test_a_missing_value_goes_out_as_null_so_that_the_server_can_place_it(dtype: str) -> None:
    frame = pd.DataFrame({"a": pd.Series([0.0, None, 2.0, 3.0, 4.0], dtype=dtype).to_numpy()}, index=HOURS)
    frame["a"] = pd.Series([0.0, None, 2.0, 3.0, 4.0], dtype=dtype, index=HOURS)
    assert sent(frame)[0]["values"]["a"] == [0, None, 2, 3, 4]


def test_infinity_goes_out_as_null_and_text_as_text() -> None:
    frame = wide(HOURS)
    frame.loc[HOURS[1], "a"] = np.inf
    frame["b"] = pd.Series(["x"] * 5, index=HOURS)
    assert sent(frame)[0]["values"] == {"b": ["x"] * 5, "a": [0, None, 4, 6, 8]}


def test_a_missing_time_is_left_to_the_server() -> None:
    for zone in (None, "UTC"):
        index = pd.DatetimeIndex([HOURS[0], pd.NaT, *HOURS[2:]], tz=zone)
        assert sent(wide(index))[0]["timestamps"][1] == "NaT"


def test_a_column_twice_is_refused() -> None:
    frame = pd.DataFrame(np.ones((5, 2)), index=HOURS, columns=["a", "a"])
    with pytest.raises(UsageError, match=r"columns \['a'\] occur twice"):
        sent(frame)


def test_two_time_columns_are_refused() -> None:
    frame = pd.DataFrame(np.ones((5, 2)), columns=["date", "date"])
    with pytest.raises(UsageError, match="occurs twice"):
        sent(frame)


def test_values_json_cannot_carry_are_refused() -> None:
    with pytest.raises(UsageError, match="JSON cannot carry"):
        sent(pd.DataFrame({"a": [object()] * 5}, index=HOURS))


def test_the_frame_sent_is_not_changed() -> None:
    frame = wide(HOURS)
    copy = frame.copy()
    there_and_back(frame)
    pd.testing.assert_frame_equal(frame, copy)
