"""The table of docs/kubernetes.md says yes in every row, and each test it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from manifests import ROOT
from test_rules import BROKEN

TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
NAMED = re.compile(r"`([^`]+)`(?: \(([^)]+)\))?")  # `name` (what it tries, ...)


def rows() -> list[list[str]]:
    """Cells of the first table's rows."""
    table = PAGE.split("## What others ship, and what is here")[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


@cache
def functions() -> set[str]:
    """Every test function under tests/."""
    trees = (ast.parse(path.read_text()) for path in TESTS.rglob("test_*.py") if "node_modules" not in path.parts)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_feature_is_there_and_has_its_test(row: list[str]) -> None:
    _, _, here, tests = row
    assert here == "yes"
    named = NAMED.findall(tests)
    assert named
    known = functions()
    for name, tried in named:
        found = list(TESTS.rglob(name)) if name.endswith(".py") else [name] * (name in known)
        assert found, f"{name} is no test"
        if tried:
            assert name == "test_rules.py"
            assert set(tried.split(", ")) <= BROKEN.keys()


def test_the_table_has_every_row() -> None:
    assert len(rows()) >= 15
