"""Windows, their agreement, and what is said of a result."""

from __future__ import annotations

import math
from array import array
from collections import Counter

import pytest

from pressroom.bench_load import Load
from pressroom.bench_report import HEADINGS, TEXT_HEADINGS, document, draw, remarks, rows, text_rows
from pressroom.bench_run import Result
from pressroom.bench_stats import Window, agree, joined, spread
from pressroom.bench_text import Spoken, TextWindow


def window(count=100, seconds=1.0, latency=0.01, **more):
    return Window(seconds=seconds, latencies=array("d", [latency] * count), **more)


def result(windows, load=None, **more):
    load = load or Load(clients=4)
    figures = [one.figures(closed=load.closed) for one in windows]
    found = {"failed": joined(windows).failed, "first_said": {}, "stable": agree(figures, 0.1)}
    return Result(wire="grpc", load=load, windows=windows, settled=joined(windows[-3:]), **{**found, **more})


def test_three_windows_agree_within_their_tolerance_and_no_further():
    assert spread([90, 100, 110]) == pytest.approx(0.1)
    assert agree([(90, 1), (100, 1), (110, 1)], 0.1001)
    assert not agree([(90, 1), (100, 1), (110, 1)], 0.0999)
    assert not agree([(100, 1), (100, 1)], 0.5)
    assert not agree([(100, 1), (100, 2), (100, 1)], 0.1)  # every figure has to
    assert agree([(1, 1), (100, 1), (100, 1), (100, 1)], 0.1)  # old windows do not count
    assert not agree([(100, math.nan)] * 3, 0.1)


def test_a_closed_window_has_to_agree_in_rate_an_open_one_in_latency_alone():
    one = window(50, seconds=2.0, latency=0.02)
    assert one.figures(closed=True) == pytest.approx((20.0, 25.0))
    assert one.figures(closed=False) == pytest.approx((20.0,))


def test_windows_join_to_one_over_their_whole_time():
    whole = joined([window(10, failed=Counter(a=1), own_cpu=0.1), window(30, 3.0, 0.03, failed=Counter(a=1, b=2))])
    assert (whole.seconds, whole.rate, whole.own_cpu) == (4.0, 10.0, 0.1)
    assert whole.percentile_ms(25) == pytest.approx(10.0)
    assert whole.percentile_ms(26) == pytest.approx(30.0)
    assert whole.failed == Counter(a=2, b=2)


def test_the_table_shows_the_settled_figures():
    (cells,) = rows([result([window(1, latency=9.0), *[window(200)] * 3], compared=7, wrong=2)])
    shown = dict(zip(HEADINGS, cells, strict=True))
    assert shown["requests/s"] == "200"
    assert shown["p99 ms"] == "10.00"
    assert (shown["failed"], shown["wrong"], shown["windows"]) == ("0", "2 of 7", "4")


def test_remarks_name_failures_wrong_answers_instability_and_limits():
    failing = [window(100, failed=Counter({"429 queue_full": 3}), own_cpu=0.95)] * 3
    found = remarks([result(failing, first_said={"429 queue_full": "come back"}, compared=5, wrong=1)])
    assert found == [
        "grpc, 4 clients: 9 x 429 queue_full: come back",
        "grpc, 4 clients: 1 of 5 compared answers differ from the first one",
        "grpc, 4 clients: the load generator used a whole core: the server may be faster than this",
    ]
    assert remarks([result([window(100), window(200), window(100)])]) == [
        "grpc, 4 clients: not stable after 3 windows; the figures are of the last ones"
    ]
    assert remarks([result([window(100)] * 3)]) == []


@pytest.mark.parametrize(("answered", "behind"), [(100, False), (80, False), (60, True)])
def test_a_server_behind_its_rate_is_told_from_chance(answered, behind):
    """At 100 a second for 3 s, chance takes 300 - 4 * sqrt(300) = 231."""
    found = remarks([result([window(answered)] * 3, Load(rate=100.0))])
    assert (found == ["grpc, 100/s: the server answers 60 a second and falls behind"]) == behind
    assert bool(found) == behind


def spoken(first, gaps, tokens):
    return Spoken(first, gaps, tokens)


def test_streams_are_figured_by_their_tokens():
    heard = [spoken(0.1, [0.01, 0.03], 3), spoken(0.3, [0.02], 2), spoken(0.2, [], 1)]
    one = TextWindow(seconds=2.0, latencies=array("d", [0.14, 0.32, 0.2]), spoken=heard)
    assert one.tokens_rate == 3.0
    assert [one.first_ms(percent) for percent in (50, 99)] == pytest.approx([200.0, 300.0])
    assert [one.gap_ms(percent) for percent in (50, 99)] == pytest.approx([20.0, 30.0])
    assert one.good(ttft_ms=250, gap_ms=100) == pytest.approx(2 / 3)
    assert one.good(ttft_ms=1000, gap_ms=19.9) == pytest.approx(1 / 3)  # the mean gap of an answer has to keep it


def test_goodput_is_the_rate_of_answers_that_keep_both_limits():
    windows = [TextWindow(seconds=1.0, latencies=array("d", [0.5] * 2), spoken=[spoken(0.1, [0.05], 2)] * 2)] * 3
    found = result(windows)
    (cells,) = text_rows([found], ttft_ms=100, gap_ms=50)
    assert cells[TEXT_HEADINGS.index("goodput/s")] == "2.00 (100%)"
    (entry,) = document([found], ttft_ms=99, gap_ms=50)
    assert (entry["tokens_per_s"], entry["goodput_share"], entry["goodput_per_s"]) == (4.0, 0.0, 0.0)


def test_a_result_without_answers_has_nulls_and_is_not_fine():
    (entry,) = document([result([Window(seconds=1.0, failed=Counter({"503": 4}))])], 1, 1)
    assert (entry["answers"], entry["p50_ms"], entry["stable"]) == (0, None, False)
    assert entry["failed"] == {"503": 4}


def test_a_result_is_fine_only_if_stable_without_failures_and_right():
    steady = [window(100)] * 3
    assert result(steady).fine
    assert not result(steady, wrong=1).fine
    assert not result([window(100, failed=Counter(a=1))] * 3).fine
    assert not result(steady[:2]).fine


def test_a_picture_is_drawn(tmp_path):
    draw([result([window(100)] * 3), result([window(300)] * 3)], tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
