"""Histories in plain Python and numpy: what goes out for what is given."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from pressroom_client import History, UnexpectedAnswer, UsageError
from pressroom_client._forecast import forecast_call
from pressroom_client._timestamps import from_wire, to_wire


def sent(history) -> list[dict]:
    return json.loads(forecast_call(history, model=None, version=None, horizon=None).body)["series"]


def test_a_mapping_of_columns_is_one_series() -> None:
    assert sent({"a": (1, 2), "b": np.array([3.5, 4.5], np.float32)}) == [{"values": {"a": [1, 2], "b": [3.5, 4.5]}}]


def test_a_mapping_of_histories_is_many_by_id() -> None:
    histories = {"x": History(values={"a": [1]}), 7: History(values={"a": [2]}, id="its own")}
    assert [(series["id"], series["values"]) for series in sent(histories)] == [("x", {"a": [1]}), ("7", {"a": [2]})]


def test_no_history_at_all_is_left_to_the_server() -> None:
    assert sent([]) == []
    assert sent({}) == [{"values": {}}]


def test_start_and_freq_stand_for_timestamps() -> None:
    history = History(values={"a": [1.0]}, start=datetime(2024, 1, 1, 5), freq="h", id="s")
    assert sent(history) == [{"id": "s", "start": "2024-01-01T05:00:00", "freq": "h", "values": {"a": [1.0]}}]


def test_the_horizon_s_timestamps_go_out_beside_the_history_s() -> None:
    stamps = np.array(["2024-01-01T05", "2024-01-01T06"], "datetime64[h]")
    history = History(values={"a": [1.0, 2.0]}, timestamps=stamps, future_timestamps=stamps + 2)
    assert sent(history)[0]["future_timestamps"] == ["2024-01-01T07:00:00", "2024-01-01T08:00:00"]


@pytest.mark.parametrize(
    ("stamps", "wire"),
    [
        (["2024-01-01 00:00", "2024-01-01 01:00"], ["2024-01-01 00:00", "2024-01-01 01:00"]),
        ([1_704_067_200, np.int64(1_704_070_800)], [1_704_067_200, 1_704_070_800]),
        (np.array([1, 2], np.uint32), [1, 2]),
        ([datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))], ["2024-01-01T00:00:00+02:00"]),
        ([date(2024, 1, 1)], ["2024-01-01"]),
        (np.array(["2024-01-01T05", "NaT"], "datetime64[h]"), ["2024-01-01T05:00:00", "NaT"]),
        ([np.datetime64("2024-01-01T05:00")], ["2024-01-01T05:00"]),
        (np.array(["2024-01-01T00:00:00.5"], "datetime64[ns]"), ["2024-01-01T00:00:00.500000000"]),
    ],
)
def test_points_in_time_go_out_as_iso_text_or_epoch_seconds(stamps, wire: list) -> None:
    assert to_wire(stamps, "timestamps") == wire


@pytest.mark.parametrize("stamp", [1.5, True, None, b"2024"])
def test_what_is_no_point_in_time_is_refused(stamp) -> None:
    with pytest.raises(UsageError, match="expected a point in time") as caught:
        sent(History(values={"a": [1.0]}, timestamps=[stamp]))
    assert caught.value.field == "series[0].timestamps"


@pytest.mark.parametrize(
    ("wire", "first", "zone"),
    [
        (["2024-01-01T05:00:00"], "2024-01-01T05:00:00", None),
        (["2024-01-01T05:00:00Z"], "2024-01-01T05:00:00", UTC),
        (["2024-01-01T05:00:00+02:00"], "2024-01-01T03:00:00", timezone(timedelta(hours=2))),
        ([1_704_067_200], "2024-01-01T00:00:00", UTC),
    ],
)
def test_points_in_time_come_back_as_datetime64(wire: list, first: str, zone) -> None:
    stamps, came_in = from_wire(wire)
    assert stamps.dtype == "datetime64[us]"
    assert (stamps[0], came_in) == (np.datetime64(first), zone)


def test_a_timestamp_that_cannot_be_read_is_the_servers_fault() -> None:
    with pytest.raises(UnexpectedAnswer, match="timestamps cannot be read"):
        from_wire(["yesterday"])


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ({"a": [[1.0]]}, r"shape \[1, 1\], expected \[L\]"),
        ({"a": 1.0}, r"shape \[\], expected \[L\]"),
        ("text", "got str, expected a history"),
        ([3], "got int, expected a history"),
        (np.zeros(3), "got ndarray, expected a history"),
    ],
)
def test_what_is_no_history_is_refused(history, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        sent(history)


def test_a_history_says_its_time_in_one_way() -> None:
    with pytest.raises(UsageError, match="expected one of them"):
        History(values={}, timestamps=[1], start=1, freq="h")
    with pytest.raises(UsageError, match="give both or neither"):
        History(values={}, start=1)


def test_a_horizon_below_1_is_refused() -> None:
    with pytest.raises(UsageError, match="expected at least 1"):
        forecast_call({"a": [1.0]}, model=None, version=None, horizon=0)


def test_an_answer_with_another_number_of_series_is_refused() -> None:
    call = forecast_call({"a": [1.0]}, model=None, version=None, horizon=None)
    with pytest.raises(UnexpectedAnswer, match="sent 1 series, the answer holds 0"):
        call.read(b'{"series": []}', "id")


def test_usage_errors_are_value_errors() -> None:
    assert issubclass(UsageError, ValueError)
