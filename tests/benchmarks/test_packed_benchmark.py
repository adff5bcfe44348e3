"""The page of packed layers shows what was measured, and a promise that does not hold says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.packed import judged
from benchmarks.packed_model import FormFigures, model_rows
from benchmarks.report import DOCS, replace_measured

DENSE = FormFigures(50.0, 160.0, 0.3, 1.5, 540_000_000, 269_000_000)
PACKED = FormFigures(100.0, 200.0, 0.3, 0.1, 178_200_000, 269_000_000)


def test_promises_compare_with_fp32() -> None:
    lines, fine = judged({"fp32": DENSE, "packed-2:4": PACKED})
    assert [line[1:] for line in lines] == [["2.00", "yes"], ["0.33", "yes"]]
    assert fine


def test_a_broken_promise_is_named() -> None:
    lines, fine = judged({"fp32": DENSE, "packed-2:4": replace(PACKED, decode_1=60.0)})
    assert lines[0][1:] == ["1.20", "NO"]
    assert not fine


def test_sizes_are_compared_with_both_dense_files() -> None:
    packed = model_rows({"fp32": DENSE, "packed-2:4": PACKED})[1]
    assert packed == ["packed-2:4", "178", "0.33", "0.66", "100 (2.00 x)", "200 (1.25 x)", "300", "100"]


def test_a_measured_part_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: table -->\nold \\1\n<!-- end -->\nafter\n")
    replace_measured(page, "table", r"new \1")
    assert page.read_text() == "before\n<!-- measured: table -->\nnew \\1\n<!-- end -->\nafter\n"
    with pytest.raises(ValueError, match="no part <!-- measured: other -->"):
        replace_measured(page, "other", "")


def test_the_page_has_a_place_for_every_part() -> None:
    text = (DOCS / "packed.md").read_text()
    assert [
        name for name in ("model", "promises", "layers", "machine") if f"<!-- measured: {name} -->" not in text
    ] == []
