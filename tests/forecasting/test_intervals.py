"""Intervals, truths and drift of a served model, against closed forms; all behind the native JSON, in this process."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from persistence import COLUMNS, HORIZON, LOOK_BACK, Line8, conformal, uniform_reference
from pressroom_client import ForecastResult, History, to_long
from prometheus_client import REGISTRY

from models.errors import InputError
from models.forecasting import aci
from models.forecasting.conformal import unrest
from services.core.metrics import write_all
from services.forecast_intervals import Intervals
from services.forecast_memory import Memory
from services.forecast_metrics import WINDOWS

Make = Callable[..., Line8]


def frame(first: int = 0, rows: int = LOOK_BACK, noise: float = 1.0) -> pd.DataFrame:
    """Noise around 0 in both columns."""
    index = pd.date_range("2026-01-05", periods=first + rows, freq="h")[first:]
    values = np.random.default_rng(first).normal(0, noise, (rows, 2))
    return pd.DataFrame(values, index=index, columns=list(COLUMNS))


# --- intervals


async def test_an_interval_is_the_forecast_and_its_quantile_times_the_difficulty(line: Make) -> None:
    history = frame()
    (one,) = await line().ask(history, levels=[95, 80])
    assert [interval.level for interval in one.intervals] == [80, 95]
    width = unrest(history.to_numpy()[None], np.ones(2), 1)[0]
    for interval in one.intervals:
        for column, scale in zip(COLUMNS, width, strict=True):
            radius = conformal().quantile(interval.level)[0, 0] * scale
            np.testing.assert_allclose(interval.upper[column], one.values[column] + radius)
            np.testing.assert_allclose(interval.lower[column], one.values[column] - radius)


async def test_intervals_are_cut_and_chosen_like_the_forecast_and_fit_a_long_frame(line: Make) -> None:
    result = await line().ask({"x": frame()}, levels=[80], horizon=2, columns=["b"])
    (one,) = result
    assert list(one.interval(80).lower) == ["b"]
    assert len(one.interval(80).lower["b"]) == 2
    long = to_long(result)
    assert list(long.columns) == ["unique_id", "ds", "b", "b-lo-80", "b-hi-80"]
    assert (long["b-lo-80"] < long["b"]).all()


async def test_an_artifact_without_calibration_says_so(line: Make) -> None:
    with pytest.raises(InputError, match="pressed without calibration") as refusal:
        await line(calibrated=False).ask(frame(), levels=[80])
    assert (refusal.value.code, refusal.value.field) == ("not_supported", "levels")


# --- truths


def truth(result: ForecastResult, inside: bool) -> History:
    """Values within or beyond every interval."""
    (one,) = result
    return History(values={name: values + (0 if inside else 1e3) for name, values in one.values.items()})


async def test_a_truth_by_request_id_is_counted_once_at_every_level(line: Make) -> None:
    one = line()
    result = await one.ask(frame(), levels=[80], request_id="mine")
    answer = await one.tell(truth(result, inside=True), request_id="mine")
    assert (answer.forecasts, answer.values) == ((1,), (HORIZON * 2,))
    assert {(note.method, note.level): note.coverage for note in answer.coverage} == {
        ("split", n): 1 for n in aci.LEVELS
    }
    with pytest.raises(InputError, match="no forecast with intervals is kept"):  # it has met its truth
        await one.tell(truth(result, inside=True), request_id="mine")


async def test_adaptive_intervals_widen_after_misses_and_are_counted_as_issued(line: Make) -> None:
    one = line()
    widths = []
    for i in range(20):
        result = await one.ask(frame(), levels=[80], interval="adaptive", request_id=f"r{i}")
        (interval,) = result.single.intervals
        assert interval.method == "adaptive"
        widths.append(interval.upper["a"][0] - interval.lower["a"][0])
        answer = await one.tell(truth(result, inside=False), request_id=f"r{i}")
    assert (np.diff(widths) > 0).all()
    split = await one.ask(frame(), levels=[80])
    bounds = split.single.interval(80)
    assert bounds.upper["a"][0] - bounds.lower["a"][0] == pytest.approx(widths[0])  # those never change
    assert {(note.method, note.level): note.values for note in answer.coverage}["adaptive", 80] == 20 * HORIZON * 2


async def test_truths_by_id_and_time_meet_every_forecast_that_reached_them(line: Make) -> None:
    one = line()
    for first in range(3):  # origins at hours 8, 9 and 10: hour 10 is a step of all three
        await one.ask({"meter": frame(first)}, levels=[80], request_id=f"o{first}")
    hour = pd.DataFrame({"a": [0.0]}, index=pd.DatetimeIndex(["2026-01-05 10:00"]))
    answer = await one.tell({"meter": hour})
    assert (answer.forecasts, answer.values) == ((3,), (3,))
    again = await one.tell({"meter": hour})
    assert (again.forecasts, again.values) == ((0,), (0,))  # sent twice, counted once
    assert (await one.tell({"other": hour})).forecasts == (0,)


async def test_series_of_a_request_meet_their_truth_by_place_or_id(line: Make) -> None:
    one = line()
    result = await one.ask({"x": frame(), "y": frame(1)}, levels=[80], request_id="two")
    x = History(id="x", values={"a": result["x"].values["a"]})
    y = History(id="y", values={"b": [np.nan, 1e3]})
    answer = await one.tell([y, x], request_id="two")
    assert answer.values == (1, 4)
    assert {note.level: note.coverage for note in answer.coverage}[80] == pytest.approx(4 / 5)


async def test_a_truth_that_names_no_forecast_is_refused(line: Make) -> None:
    one = line()
    for sent, says in (
        (History(values={"a": [1.0]}), "which forecast"),
        (History(id="x", values={"c": [1.0]}), "which"),
    ):
        with pytest.raises(InputError, match=says):
            await one.tell(sent)
    with pytest.raises(InputError, match="not known to the model: c"):
        await one.tell(History(values={"c": [1.0]}), request_id="r1")


async def test_forecasts_without_levels_are_not_kept(line: Make) -> None:
    one = line()
    await one.ask(frame(), request_id="plain")
    with pytest.raises(InputError, match="no forecast with intervals is kept"):
        await one.tell(History(values={"a": [1.0]}), request_id="plain")


async def test_memory_is_bounded_and_forgets_the_oldest_first(line: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.forecast_memory.MODEL_BYTES", 3 * (HORIZON * 2 * 4 + 1024))
    one = line()
    for i in range(5):
        await one.ask(frame(), levels=[80], request_id=f"r{i}")
    assert one.memory.kept("line", "1") == 3
    with pytest.raises(InputError):
        await one.tell(History(values={"a": [1.0]}), request_id="r1")
    assert (await one.tell(History(values={"a": [1.0]}), request_id="r4")).values == (1,)


async def test_a_forecast_is_forgotten_after_twice_its_horizon(line: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = line()
    await one.ask(frame(), levels=[80])
    monkeypatch.setattr("services.forecast_memory.time.time", lambda: 9e9)
    assert one.memory.kept("line", "1") == 0
    with pytest.raises(InputError):
        await one.tell(History(values={"a": [1.0]}), request_id="r1")


async def test_workers_of_one_server_share_what_they_remember(
    line: Make, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = line()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    one, other = line(memory=Memory()), line(memory=Memory())
    result = await one.ask(frame(), levels=[80], interval="adaptive", request_id="shared")
    answer = await other.tell(truth(result, inside=False), request_id="shared")
    assert answer.values == (HORIZON * 2,)
    assert one.model.intervals is not None
    assert one.model.intervals.coverage()["split", 80] == (0, HORIZON * 2)
    wider = await one.ask(frame(), levels=[80], interval="adaptive")
    assert wider.single.interval(80).upper["a"][0] > result.single.interval(80).upper["a"][0]
    assert first.model.intervals is not None


async def test_a_truth_teaches_the_version_that_made_the_forecast(line: Make) -> None:
    memory = Memory()
    old, new = line(memory=memory, version="1"), line(memory=memory, version="2")
    new.desk.open(old.model.intervals)  # as the two share one desk in a server
    result = await old.ask(frame(), levels=[80], request_id="old")
    await new.tell(truth(result, inside=True), request_id="old")
    assert memory.coverage("line", "1")["split", 80] == (HORIZON * 2, HORIZON * 2)
    assert memory.coverage("line", "2") == {}


async def test_the_coverage_gauge_says_what_the_answers_say(line: Make) -> None:
    one = line()
    for i in range(6):
        result = await one.ask(frame(i), levels=[80], request_id=f"g{i}")
        answer = await one.tell(truth(result, inside=i % 3 > 0), request_id=f"g{i}")
    write_all()
    for note in answer.coverage:
        labels = {"model": "line", "version": "1", "method": note.method, "level": str(note.level)}
        gauge = REGISTRY.get_sample_value("pressroom_forecast_coverage_ratio", labels)
        assert gauge == pytest.approx(note.coverage) == pytest.approx(4 / 6)


# --- drift


async def test_drift_gauges_follow_the_latest_requests_and_keep_no_values(line: Make) -> None:
    one = line(known=uniform_reference())

    def gauge(column: str) -> float:
        write_all()
        labels = {"model": "line", "version": "1", "column": column}
        found = REGISTRY.get_sample_value("pressroom_forecast_drift_psi", labels)
        assert found is not None
        return found

    generator = np.random.default_rng(3)
    assert np.isnan(gauge("a"))
    for _ in range(300):
        values = generator.uniform(0, 1, (LOOK_BACK, 2))
        values[:, 1] = values[:, 1] * 0.5 + 0.5  # the upper half only
        await one.ask(pd.DataFrame(values, columns=list(COLUMNS)))
    assert gauge("a") < 0.05
    assert gauge("b") > 0.25
    drift = one.model._drift
    assert drift is not None
    assert len(drift._windows) == WINDOWS
    assert drift._sum.sum(axis=0).tolist() == [WINDOWS * LOOK_BACK] * 2


def test_a_retired_version_is_freed_without_the_collector() -> None:
    """The collector of a server comes by seldom, and a reload must not leave the old calibration behind meanwhile."""
    intervals = Intervals("line", "7", conformal(), Memory())
    intervals.announce()
    gone = weakref.ref(intervals)
    gc.disable()
    try:
        intervals.retire()
        del intervals
        assert gone() is None
    finally:
        gc.enable()
