"""What the benchmarks' numbers rest on: percentiles, costs between batch sizes, CPU accounts, errors, verdicts."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.campaign import Cell
from benchmarks.cpu import ServerCpu, busy_neighbours, descendants, process_cpu_seconds
from benchmarks.errors_table import Expected, errors
from benchmarks.report import table
from benchmarks.stats import cost_at, medians
from benchmarks.verdicts import ratios, verdicts
from benchmarks.windows import split_windows
from models.forecasting.scaler import Scaler
from pressroom.bench_stats import percentile

SPINNER = "import time; t = time.process_time\nwhile t() < {seconds}: pass\nprint('done', flush=True); input()"


def test_percentile_is_the_nearest_rank():
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(values, p) for p in (1, 20, 21, 50, 99, 100)] == [1.0, 1.0, 2.0, 3.0, 5.0, 5.0]
    assert math.isnan(percentile([], 50))


def test_medians_are_taken_per_entry():
    assert medians([{"a": 1, "b": 9}, {"a": 3, "b": 7}, {"a": 2, "b": 8}]) == {"a": 2, "b": 8}


@pytest.mark.parametrize("rows", [1.0, 3.0, 29.5, 64.0])
def test_cost_between_batch_sizes_follows_fixed_plus_linear_cost(rows):
    measured = {n: 0.4 / n + 0.25 for n in (1, 2, 4, 8, 16, 32, 64)}
    assert cost_at(rows, measured) == pytest.approx(0.4 / rows + 0.25)


def test_cpu_time_of_another_process_is_what_it_used():
    with _spinner(0.2) as process:
        used = process_cpu_seconds(process.pid)
    assert 0.2 <= used < 0.5


def test_account_tells_the_supervisor_from_its_workers():
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPINNER.format(seconds=0.3)!r}])"
    with Running(nested) as process:
        account = ServerCpu(process.pid)
        used = account.read()
        assert len(descendants(process.pid)) == 1
        assert 0.3 <= used.workers < 0.6
        assert used.supervisor < used.workers
        assert account.read().since(used).workers < 0.1


def test_processes_that_are_gone_are_an_error_not_zero():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(OSError, match="Invalid argument"):
        process_cpu_seconds(process.pid)


def test_busy_neighbours_leave_with_the_block():
    before = descendants(os.getpid())
    with busy_neighbours():
        pass
    assert descendants(os.getpid()) == before


def test_errors_are_averages_on_the_training_scale():
    scaler = Scaler(np.array([10.0, 0.0]), np.array([2.0, 0.5]))
    truth = np.zeros((3, 4, 2))
    found = errors(truth + np.array([1.0, 0.5]), truth, scaler, ("a", "b"))
    assert found.columns == {"a": (0.25, 0.5), "b": (1.0, 1.0)}
    assert (found.mse, found.mae) == (0.625, 0.75)
    assert Expected(0.6254, 0.7496, None).met_by(found)
    assert not Expected(0.6256, 0.75, (0.6, 0.8)).met_by(found)


def test_test_split_is_the_papers():
    windows = split_windows()
    assert windows.history.shape == (2785, 96, 7)
    assert windows.truth.shape == (2785, 96, 7)
    np.testing.assert_array_equal(windows.truth[0, 0], windows.history[96, 0])  # row 11520, the first one forecast
    assert np.datetime64(int(windows.stamps[96, 0]), "s") == np.datetime64("2017-10-24T00:00:00")


def test_verdicts_name_what_does_not_hold():
    found = verdicts(_cells(on={"requests_per_s": 100.0, "cpu_ms": 0.7}, off={"requests_per_s": 110.0, "cpu_ms": 1.4}))
    assert [(v.holds, v.found.partition(",")[0].partition(" (")[0]) for v in found] == [
        (False, "0.91 x requests/s"),
        (False, "0.400 ms"),
        (True, "0 failed"),
    ]


def test_ratios_compare_on_with_off():
    cells = _cells(on={"requests_per_s": 300.0, "cpu_ms": 0.5}, off={"requests_per_s": 100.0, "cpu_ms": 1.0})
    assert ratios(Cell("m", "grpc", 64, True), cells) == (3.0, 2.0)


def test_table_is_markdown():
    assert table(("a", "b"), [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def _cells(on, off):
    rest = {"overhead_ms": 0.4, "floor_ms": 0.3, "alone_ms": 0.2, "batch_rows": 30.0, "failed": 0, "wrong": 0}
    return {Cell("m", "grpc", 64, True): {**rest, **on}, Cell("m", "grpc", 64, False): {**rest, **off}}


class Running:
    """A Python program that has printed `done` and waits."""

    def __init__(self, program):
        self._program = program

    def __enter__(self):
        command = [sys.executable, "-c", self._program]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout.readline() == "done\n"
        return self._process

    def __exit__(self, *error):
        self._process.communicate("\n", timeout=10)


def _spinner(seconds):
    return Running(SPINNER.format(seconds=seconds))
