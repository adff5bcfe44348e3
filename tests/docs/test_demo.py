"""`make demo` as a user meets it: the first answer, twice in a row, and words when something is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from etth1 import COLUMNS, START, official
from live_server import clean_environment
from manual import ROOT

PNG = b"\x89PNG\r\n\x1a\n"


def run_demo(home: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pressroom.demo"],
        cwd=folder, env=clean_environment(home), capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    """Output and picture of two runs in a row."""
    folder = tmp_path_factory.mktemp("demo")
    home = Path(shutil.copytree(pressed_home, folder / "home", symlinks=True))
    found = []
    for _ in range(2):
        done = run_demo(home, folder)
        assert done.returncode == 0, done.stderr
        found.append((done.stdout, (folder / "out" / "demo.png").read_bytes()))
    return found


@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
def test_the_demo_prints_and_draws_a_forecast_however_often_it_runs(which: int, runs: list[tuple[str, bytes]]) -> None:
    printed, picture = runs[which]
    assert "HTTP and gRPC answered the same numbers" in printed
    assert "2017-10-20 00:00 to 2017-10-23 23:00 (96 hours, 7 columns)" in printed
    assert re.search(r"^done in \d+ s", printed, re.MULTILINE)
    assert picture.startswith(PNG)
    assert len(picture) > 20_000


def test_the_second_run_presses_nothing(runs: list[tuple[str, bytes]]) -> None:
    assert runs[1][0].count("already there") == 2


def test_the_printed_forecast_is_the_official_programs(runs: list[tuple[str, bytes]]) -> None:
    """The demo's window is the first of the bundled samples, whose forecasts the official programs computed."""
    first = next(line.split() for line in runs[0][0].splitlines() if line.startswith("+1 "))
    for architecture, text in zip(("itransformer", "card"), first[-2:], strict=True):
        found = official(architecture)
        assert found.first[0] == START
        assert float(text) == pytest.approx(found.units[0, 0, COLUMNS.index("OT")], abs=0.006)


def test_a_store_that_cannot_be_used_is_a_sentence_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run_demo(tmp_path / "file", tmp_path)
    assert done.returncode == 1
    assert "BENTOML_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_make_demo_runs_this_module() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].endswith("-m pressroom.demo")
