"""Building the kernels is optional: without a compiler set-up goes on and says so in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The parts of a fresh clone that the build reads."""
    for name in ("native", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "models" / "packed").mkdir(parents=True)
    return tmp_path


def build(checkout: Path, *arguments: str, compiler: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "scripts" / "build_native.py"), *arguments]
    environment = os.environ | {"CXX": compiler}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_no_compiler_costs_one_line(checkout: Path) -> None:
    done = build(checkout, compiler="no-such-compiler")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "own kernels: not built (no C++ compiler: install g++ or clang++, or name one in CXX); everything else works"
    ]
    assert build(checkout, "--strict", compiler="no-such-compiler").returncode == 1


def test_a_compiler_that_fails_leaves_nothing_behind(checkout: Path) -> None:
    (checkout / "native" / "level.cpp").write_text("this is no program\n")
    done = build(checkout, compiler="c++")
    if "no C++ compiler" in done.stderr:
        pytest.skip("no C++ compiler here")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "error" in done.stderr
    assert list((checkout / "models" / "packed" / "lib").iterdir()) == []
