"""The table's promises are ratios of what was measured, and its page says them."""

from __future__ import annotations

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


def test_the_page_shows_rows_and_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.report.DOCS", tmp_path)
    entry: dict[str, Any] = {"bytes": 269060552, "cpu_seconds": 0.0, "removed": 0.5}
    found = {name: entry | {"perplexity": value} for name, value in VALUES.items()}
    pruning_page.write(found, VALUES, windows=16)
    page = (tmp_path / "pruning.md").read_text()
    assert "| RIA 2:4, permuted | 160.0 | 0.500 | 269.1 | - |" in page
    assert "| RIA 2:4, permuted / RIA 2:4: at most 0.75 | 0.8 | NO |" in page
    assert "16 calibration windows" in page.replace("\n", " ")
