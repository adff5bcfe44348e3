"""The table's promises are ratios of what was measured, and its page says them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pruning_page
from benchmarks.pruning import ROWS
from benchmarks.pruning_promises import PROMISES, Promise

VALUES = {"dense": 31.5, "RIA 2:4": 200.0, "RIA 2:4, permuted": 160.0}


def test_every_promise_speaks_of_rows_that_are_measured() -> None:
    names = {"dense"} | {row.name for row in ROWS}
    assert [p for p in PROMISES if p.of not in names or not (isinstance(p.to, float) or p.to in names)] == []


def test_a_promise_holds_within_its_bounds_only() -> None:
    dense, permuted = PROMISES[0], Promise("RIA 2:4, permuted", "RIA 2:4", 0.75)
    assert dense.holds(VALUES)
    assert not dense.holds(VALUES | {"dense": 30.3})
    assert not permuted.holds(VALUES)
    assert permuted.row(VALUES) == ["RIA 2:4, permuted / RIA 2:4: at most 0.75", "0.8", "NO"]


ENTRY: dict[str, Any] = {"bytes": 269060552, "cpu_seconds": 0.0, "removed": 0.5, "speed": None}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the page, which the benchmark will write to."""
    copied = Path(shutil.copy(pruning_page.PAGE, tmp_path))
    monkeypatch.setattr(pruning_page, "PAGE", copied)
    return copied


def test_the_page_shows_rows_and_promises_and_keeps_what_is_written_by_hand(page: Path) -> None:
    before = page.read_text()
    found = {name: ENTRY | {"perplexity": value} for name, value in VALUES.items()}
    found["RIA 2:4"]["speed"] = 1.004
    for _ in range(2):
        pruning_page.write(found, VALUES, windows=17)
    text = page.read_text()
    assert "| RIA 2:4, permuted | 160.0 | 0.500 | 269.1 | - | - |" in text
    assert "| RIA 2:4 | 200.0 | 0.500 | 269.1 | 1.00 x dense | - |" in text
    assert "| RIA 2:4, permuted / RIA 2:4: at most 0.75 | 0.8 | NO |" in text
    assert text.count("17 calibration windows") == 1
    assert by_hand(text) == by_hand(before)


def by_hand(text: str) -> str:
    return re.sub(r"(<!-- measured: \w+ -->).*?(<!-- end -->)", "", text, flags=re.DOTALL)


def test_a_page_without_a_place_for_the_table_is_refused(page: Path) -> None:
    page.write_text("# Pruning")
    with pytest.raises(ValueError, match="measured: table"):
        pruning_page.write({}, {}, windows=1)


def test_the_committed_page_shows_that_every_promise_holds() -> None:
    text = pruning_page.PAGE.read_text()
    named = {promise.of for promise in PROMISES} | {str(promise.to) for promise in PROMISES if promise.of != "dense"}
    assert [name for name in sorted(named) if f"| {name} |" not in text] == []
    assert text.count("| yes |") == len(PROMISES)
    assert "| NO |" not in text
