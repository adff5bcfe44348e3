"""A reader finds the same parts on every family's page, and the same numbers on every page that tells them."""

from __future__ import annotations

import re

import pytest
from manual import ROOT

DOCS = ROOT / "docs"
FAMILIES = ("forecasting", "llm", "text-detection", "watermark", "detection", "ehr")
PARTS = ("Request", "Accuracy", "Limits", "Papers")  # how a heading begins; what is answered follows the request
SOURCES = {"forecasting": "accuracy", "llm": "export", "ehr": "ehr-benchmarks"}  # whose rows a page repeats


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_s_page_has_the_same_parts(family: str) -> None:
    headings = re.findall(r"^## (.+)$", (DOCS / f"{family}.md").read_text(), re.MULTILINE)
    assert [part for part in PARTS if not any(heading.startswith(part) for heading in headings)] == []
    assert any("answer" in heading.lower() for heading in headings)


@pytest.mark.parametrize(("family", "source"), SOURCES.items())
def test_rows_told_twice_are_the_same(family: str, source: str) -> None:
    part = re.search(r"^## Accuracy.*?(?=^## )", (DOCS / f"{family}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert part
    rows = [line for line in part[0].splitlines() if line.startswith("| ")]
    measured = set((DOCS / f"{source}.md").read_text().splitlines())
    assert len(rows) >= 4
    assert [row for row in rows if row not in measured and not set(row) <= set("|-: ")] == []
