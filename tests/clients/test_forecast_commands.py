"""`pressroom forecast` and `pressroom backtest` over csv and parquet, wide and long, against the tiny server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny_service import HORIZON, Behaviour, http_server
from typer.testing import CliRunner, Result

from pressroom.cli import app

PNG = b"\x89PNG"


@pytest.fixture
def url() -> Iterator[str]:
    with http_server(Behaviour()) as address:
        yield address


def run(url: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--url", url])


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """40 hours: a counts up, which the tiny server forecasts without error; b goes up by 2."""
    index = pd.date_range("2026-01-05", periods=40, freq="h", name="date")
    frame = pd.DataFrame({"a": np.arange(40.0), "b": 2 * np.arange(40.0)}, index=index)
    frame.to_csv(tmp_path / "wide.csv")
    frame.to_parquet(tmp_path / "wide.parquet")
    pd.concat([frame.assign(id="n"), frame.iloc[:30].assign(id="s/1")]).reset_index().to_csv(
        tmp_path / "long.csv", index=False
    )
    return tmp_path / "wide.csv"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_file_is_forecast_with_bounds_into_the_same_kind_of_file(url: str, wide: Path, ending: str) -> None:
    out = wide.with_name(f"out.{ending}")
    done = run(url, "forecast", wide.with_suffix(f".{ending}"), "--levels", "80", "--out", out)
    assert done.exit_code == 0, done.output
    written = pd.read_csv(out, index_col="time") if ending == "csv" else pd.read_parquet(out)
    assert written["a"].tolist() == [40, 41, 42]
    assert written["a-hi-80"].tolist() == [48, 49, 50]
    assert str(written.index[0]) == "2026-01-06 16:00:00"


def test_a_long_file_gives_every_series_its_forecast_and_picture(url: str, wide: Path) -> None:
    long = wide.with_name("long.csv")
    done = run(url, "forecast", long, "--id-column", "id", "--json", "--plot", wide.with_name("p.png"))
    assert done.exit_code == 0, done.output
    series = json.loads(done.output)["series"]
    assert [(one["id"], one["values"]["a"][0]) for one in series] == [("n", 40), ("s/1", 30)]
    for name in ("p-n.png", "p-s_1.png"):  # an id is no path
        assert wide.with_name(name).read_bytes().startswith(PNG)


def test_a_backtest_is_a_table_a_picture_and_json(url: str, wide: Path) -> None:
    shown = run(url, "backtest", wide, "--levels", "50", "--plot", wide.with_name("b.png"))
    assert shown.exit_code == 0, shown.output
    assert "coverage_50" in shown.output
    assert "12 windows" in shown.output
    assert wide.with_name("b.png").read_bytes().startswith(PNG)
    found = json.loads(run(url, "backtest", wide, "--levels", "", "--scale-rows", "0:20", "--json").output)
    assert found["by_column"]["a"]["mae"] == 0
    std = (2 * np.arange(20.0)).std()
    assert found["by_column"]["b"]["mae"] == pytest.approx(np.mean([1, 2, 3]) / std)
    assert len(found["by_step"]) == HORIZON
    assert found["overall"]["mase"] == pytest.approx(np.mean([0, 2 / 48]))  # over a day: 24 of a, 48 of b


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("forecast", "wide.csv", "--levels", "many"), "whole percentages"),
        (("forecast", "wide.csv", "--columns", "c"), "no column 'c'"),
        (("forecast", "wide.csv", "--time-column", "when"), "no column 'when'"),
        (("forecast", "long.csv", "--id-column", "name"), "no column 'name'"),
        (("forecast", "empty.parquet"), "not a parquet file"),
        (("backtest", "wide.csv", "--scale-rows", "all"), "FIRST:END"),
        (("backtest", "wide.csv", "--by", "hour"), '"column" or "step"'),
        (("forecast", "wide.csv", "--plot", "p.txt"), "cannot be drawn"),
    ],
)
def test_misuse_is_said_and_exits_with_2(url: str, wide: Path, arguments: tuple[str, ...], says: str) -> None:
    (wide.parent / "empty.parquet").write_bytes(b"no parquet")
    paths = [wide.parent / part if part.endswith((".csv", ".parquet", ".txt")) else part for part in arguments]
    done = run(url, *paths)
    assert done.exit_code == 2, done.output
    assert says in done.output.replace("\n", " ")


@pytest.mark.parametrize("verb", ["forecast", "backtest"])
def test_local_times_are_sent_with_their_zone(wide: Path, verb: str) -> None:
    behaviour = Behaviour()
    with http_server(behaviour) as url:
        done = run(url, verb, wide, "--tz", "Europe/Berlin", "--levels", "")
        sent = next(json.loads(one.body) for one in behaviour.seen if one.name == "POST /v1/forecast")
    assert done.exit_code == 0, done.output
    series = sent["series"][-1]
    assert series["tz"] == "Europe/Berlin"
    assert series["timestamps"][-1].startswith("2026-01-06 1")
    assert list(series["values"]) == ["a", "b"]


def test_a_parquet_file_s_own_missing_values_are_sent_as_missing(wide: Path) -> None:
    frame = pd.read_parquet(wide.with_suffix(".parquet")).astype({"a": "Float64", "b": "Int64"}).reset_index()
    frame.loc[38, "b"] = pd.NA
    frame.to_parquet(wide.with_suffix(".parquet"))
    behaviour = Behaviour()
    with http_server(behaviour) as url:
        done = run(url, "forecast", wide.with_suffix(".parquet"), "--tz", "Asia/Tokyo", "--target", "a")
        (series,) = json.loads(behaviour.seen[-1].body)["series"]
    assert done.exit_code == 0, done.output
    assert series["values"]["b"][-2:] == [None, 78]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("order", [["ds", "unique_id", "a"], ["unique_id", "ds", "a"]])
def test_a_long_file_may_begin_with_its_time_or_its_names(
    url: str, tmp_path: Path, order: list[str], ending: str
) -> None:
    hours = pd.date_range("2026-01-05", periods=9, freq="h")
    starts = {"n": 0, "s": 50}
    parts = [pd.DataFrame({"unique_id": n, "ds": hours, "a": at + np.arange(9.0)}) for n, at in starts.items()]
    long = pd.concat(parts)[order]
    file = tmp_path / f"long.{ending}"
    long.to_csv(file, index=False) if ending == "csv" else long.to_parquet(file, index=False)
    done = run(url, "forecast", file, "--id-column", "unique_id", "--json")
    assert done.exit_code == 0, done.output
    found = {one["id"]: (one["timestamps"][0], one["values"]["a"][0]) for one in json.loads(done.output)["series"]}
    assert found == {"n": ("2026-01-05 09:00:00", 9.0), "s": ("2026-01-05 09:00:00", 59.0)}


def test_a_parquet_file_of_several_series_may_keep_time_in_its_index(url: str, wide: Path) -> None:
    long = pd.read_csv(wide.with_name("long.csv"), parse_dates=["date"], index_col="date")
    long.to_parquet(wide.with_name("long.parquet"))
    done = run(url, "forecast", wide.with_name("long.parquet"), "--id-column", "id", "--json")
    assert done.exit_code == 0, done.output
    assert [one["values"]["a"][0] for one in json.loads(done.output)["series"]] == [40, 30]


def test_epoch_seconds_in_a_named_column_are_time(url: str, wide: Path) -> None:
    frame = pd.read_csv(wide)
    frame["date"] = 1_767_571_200 + 3600 * np.arange(40)
    frame.rename(columns={"date": "at"}).to_csv(wide, index=False)
    done = run(url, "forecast", wide, "--time-column", "at", "--json")
    assert done.exit_code == 0, done.output
    (one,) = json.loads(done.output)["series"]
    assert one["timestamps"][0] == "2026-01-06 16:00:00+00:00"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace(",7.0,", ",-,", 1), "column a has '-' in row 7"),
        (lambda text: text.replace(",", ";"), "by semicolons"),
    ],
    ids=["a dash among numbers", "semicolons"],
)
def test_a_csv_that_is_nearly_right_is_refused_by_place(
    url: str, wide: Path, change: Callable[[str], str], says: str
) -> None:
    wide.write_text(change(wide.read_text()))
    done = run(url, "forecast", wide)
    assert done.exit_code == 2
    assert says in done.output
