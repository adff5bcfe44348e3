"""`pressroom tune`: once with a real server, and with trials made up, whose outcome is known."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib

import pytest
from live_server import PRESSROOM, clean_environment

from pressroom import tune_run
from pressroom.cli import main
from pressroom.tune_search import Trial
from services.core.settings import Settings

DEFAULTS = {name: Settings.model_fields[name].default for name in tune_run.grid_of("forecast", 2)}


@pytest.fixture
def tune(monkeypatch, capsys):
    """tune(limit, *arguments) -> exit status and JSON of a search over made-up trials on two cores."""

    class Opened:
        class manifest:  # noqa: N801 (an attribute of an artifact)
            family = "forecast"

    monkeypatch.setattr("pressroom.inspect.open_named", lambda target: Opened)
    monkeypatch.setattr(tune_run, "cores", lambda: 2)
    monkeypatch.setattr(tune_run, "try_point", _made_up)

    def run(limit, *arguments):
        with pytest.raises(SystemExit) as left:
            main(["tune", "m", "--p99-ms", str(limit), "--json", *arguments])
        printed = capsys.readouterr()
        return int(left.value.code or 0), json.loads(printed.out) if printed.out else printed.err

    return run


def _made_up(point, work):
    """Two processes double the rate; waiting costs latency; more than 16 rows gain nothing and take long."""
    known = dict(point)
    rate = 100.0 * known["workers"] * min(known["max_batch_rows"], 16) / known["threads"]
    return Trial(point, rate, 10 + 4 * known["max_delay_ms"] + max(known["max_batch_rows"] - 16, 0), True)


def test_the_best_settings_are_written_for_the_server(tune, tmp_path):
    file = tmp_path / "pressroom.toml"
    status, found = tune(30, "--out", str(file))
    assert (status, found["met"]) == (0, True)
    best = found["best"]["settings"]
    assert tomllib.loads(file.read_text()) == best
    assert (best["workers"], best["threads"], best["max_batch_rows"]) == (2, 1, 16)
    assert found["best"]["answers_per_s"] == 3200.0
    assert found["best"]["p99_ms"] <= 30 < found["defaults"]["p99_ms"]
    assert found["defaults"]["settings"] == DEFAULTS
    assert found["trials"][0]["settings"] == DEFAULTS


def test_a_limit_that_cannot_be_met_is_said_and_nothing_is_written(tune, tmp_path):
    file = tmp_path / "pressroom.toml"
    status, found = tune(9, "--out", str(file))
    assert (status, found["met"]) == (1, False)
    assert found["best"]["p99_ms"] == 10.0
    assert not file.exists()


def test_a_file_that_exists_is_left_alone_unless_asked(tune, tmp_path):
    file = tmp_path / "pressroom.toml"
    file.write_text("workers = 7\n")
    status, said = tune(100, "--out", str(file))
    assert (status, file.read_text()) == (2, "workers = 7\n")
    assert "--overwrite" in said
    assert tune(100, "--out", str(file), "--overwrite")[0] == 0
    assert tomllib.loads(file.read_text())["workers"] == 2


def test_what_won_by_luck_loses_when_it_is_measured_again(tune, monkeypatch):
    seen = {}

    def lucky_once(point, work):
        seen[point] = seen.get(point, 0) + 1
        return Trial(point, 500.0 if seen[point] == 1 and dict(point) != DEFAULTS else 100.0, 1.0, True)

    monkeypatch.setattr(tune_run, "try_point", lucky_once)
    status, found = tune(40)
    assert status == 0
    assert found["best"]["settings"] == DEFAULTS


def test_one_real_trial_measures_the_served_model(pressed_home):
    done = subprocess.run(
        [PRESSROOM, "tune", "card-etth1", "--p99-ms", "60000", "--clients", "4", "--minutes", "0.1", "--json"],
        env=clean_environment(pressed_home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    (trial,) = found["trials"]
    assert trial == found["best"] == found["defaults"]
    assert (trial["fault"], trial["answers_per_s"] > 0) == (None, True)
    grid = tune_run.grid_of("forecast", len(os.sched_getaffinity(0)))
    assert trial["settings"] == tune_run.start_of(grid)
