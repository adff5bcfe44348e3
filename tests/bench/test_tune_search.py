"""Coordinate descent on a made-up server whose best settings are known."""

from __future__ import annotations

import tomllib

import pytest

from pressroom.tune import _toml
from pressroom.tune_run import grid_of, start_of
from pressroom.tune_search import Search, Trial, better
from services.core.settings import load_settings

GRID = {"workers": (1, 2, 4), "max_batch_rows": (1, 8, 64)}
START = {"workers": 1, "max_batch_rows": 64}


def trial(rate=100.0, p99=10.0, fault=""):
    return Trial((), rate, p99, True, fault)


def server(point):
    """Rate grows with processes and rows; latency with rows, and with more than two processes."""
    known = dict(point)
    rate = 100.0 * known["workers"] * (1 + known["max_batch_rows"] / 64)
    return Trial(point, rate, known["max_batch_rows"] + (100.0 if known["workers"] > 2 else 0.0), True)


def search(limit, measure=server, may_go_on=lambda: True, seed=0):
    return Search(GRID, limit, measure, may_go_on, seed)


def test_what_is_better():
    assert better(trial(rate=110), trial(rate=100), 50)
    assert not better(trial(rate=104), trial(rate=100), 50)  # chance does that
    assert better(trial(rate=1), trial(rate=100, p99=51), 50)  # the limit comes first
    assert better(trial(p99=60), trial(p99=70), 50)
    assert not better(trial(rate=999, fault="3 x 503"), trial(p99=99), 50)
    assert not better(trial(fault="x"), trial(fault="y"), 50)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("limit", "workers", "rows"), [(200.0, 4, 64), (99.0, 2, 64), (10.0, 2, 8), (5.0, 2, 1)])
def test_the_fastest_point_that_keeps_the_limit_is_found(limit, workers, rows, seed):
    assert dict(search(limit, seed=seed).run(START).point) == {"workers": workers, "max_batch_rows": rows}


def test_a_limit_that_nothing_keeps_gives_the_least_latency():
    best = search(0.5).run(START)
    assert not best.meets(0.5)
    assert best.p99_ms == 1.0


def test_no_point_is_measured_twice():
    asked = []

    def measure(point):
        asked.append(point)
        return server(point)

    search(200.0, measure).run(START)
    assert len(asked) == len(set(asked)) <= 9


def test_an_expired_budget_still_measures_the_start():
    found = search(200.0, may_go_on=lambda: False)
    assert dict(found.run(START).point) == START
    assert len(found.trials) == 1


def test_settings_that_fail_are_never_chosen():
    def measure(point):
        known = dict(point)
        return Trial(point, 1e6, 0.1, True, "the server did not start") if known["workers"] == 4 else server(point)

    assert dict(search(200.0, measure).run(START).point) == {"workers": 2, "max_batch_rows": 64}


@pytest.mark.parametrize("family", ["forecast", "onnx", "detect", "ehr", "llm", "text-detect"])
@pytest.mark.parametrize("cores", [1, 2, 6])
def test_every_familys_search_begins_with_settings_of_its_grid(family, cores):
    grid = grid_of(family, cores)
    start = start_of(grid)
    assert all(start[name] in values for name, values in grid.items())
    for name, values in grid.items():
        for value in values:
            load_settings({name: value}, {})  # every value is one the server takes


def test_the_file_is_read_by_the_server(tmp_path, monkeypatch):
    best = Trial((("workers", 2), ("max_delay_ms", 0.0), ("max_batch_rows", 16)), 900.0, 40.0, True)
    file = tmp_path / "pressroom.toml"
    file.write_text(_toml(best, trial(), "pressroom tune m --p99-ms 50 --clients 64"))
    assert tomllib.loads(file.read_text()) == {"workers": 2, "max_delay_ms": 0.0, "max_batch_rows": 16}
    values = load_settings({}, {"PRESSROOM_CONFIG": str(file)}).values
    assert (values.workers, values.max_delay_ms, values.max_batch_rows) == (2, 0.0, 16)
    assert "the defaults: 100/s, 10.0 ms" in file.read_text()
