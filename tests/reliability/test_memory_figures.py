"""The memory benchmarks' own judgement; the figures themselves take minutes and are reported in docs/reliability.md."""

from __future__ import annotations

import pytest

from benchmarks.reload_memory import Cycles
from benchmarks.soak import Point, Soak


@pytest.mark.parametrize(
    ("last", "failed", "holds"), [(100.0, 0, True), (105.0, 0, True), (105.2, 0, False), (100.0, 1, False)]
)
def test_a_soak_holds_within_five_percent_and_without_failures(last: float, failed: int, holds: bool) -> None:
    found = Soak(Point(20_000, 100.0, 0), Point(200_000, last, failed), 60.0)
    assert found.holds is holds


def test_reloads_are_judged_by_medians_so_that_one_spike_says_nothing() -> None:
    steady = Cycles(90.0, [100.0] * 5 + [150.0] + [100.0] * 4)
    assert steady.ratio == 1.0
    growing = Cycles(90.0, [100.0 + 2 * i for i in range(10)])
    assert growing.ratio == pytest.approx(114 / 104)
