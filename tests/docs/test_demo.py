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
from tiny_llm import make_tiny_llama

from export.artifact import read_artifact

PNG = b"\x89PNG\r\n\x1a\n"


def run_demo(home: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pressroom.demo", *options],
        cwd=folder, env=clean_environment(home), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def home(pressed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's own store, with the forecasters in it."""
    return Path(shutil.copytree(pressed_home, tmp_path_factory.mktemp("demo") / "home", symlinks=True))


@pytest.fixture(scope="module")
def runs(home: Path) -> list[tuple[str, bytes]]:
    """Output and picture of two runs in a row; a tiny language model stands for the embedded one."""
    folder = home.parent
    model = make_tiny_llama(folder / "tiny")
    found = []
    for _ in range(2):
        done = run_demo(home, folder, "--model", str(model))
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
    assert runs[0][0].count("certified and stored") == 2  # the language models; the forecasters were there
    assert runs[1][0].count("already there") == 4


@pytest.mark.parametrize("which", [0, 1], ids=["first", "second"])
def test_the_dense_model_and_its_pruned_twin_answer_side_by_side(which: int, runs: list[tuple[str, bytes]]) -> None:
    printed = runs[which][0].partition("5/5")[2]
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.startswith("smollm2")}
    assert rows["smollm2"][1:4] == ["-", "-", "-"]
    removed, before, after = (float(cell) for cell in rows["smollm2-ria-2-4"][1:4])
    assert removed == pytest.approx(0.5, abs=0.01)
    assert before > 1
    assert after > 1
    assert {"smollm2:1:", "smollm2-ria-2-4:1:"} <= set(printed.splitlines())
    assert "this int8 graph is neither" in printed


@pytest.mark.usefixtures("runs")
def test_the_pruned_twin_cites_its_method_and_carries_its_receipt(home: Path) -> None:
    artifact = read_artifact(home / "models" / "smollm2-ria-2-4" / "1")
    manifest, receipt = artifact.manifest, artifact.read_json("receipt.json")
    assert manifest.paper.url == "https://openreview.net/forum?id=Tr0lPx9woF"
    assert manifest.official.commit == "7bc55b06924659ea977f7804b773ce3ef0d55c2f"
    assert any(note.startswith("pruned with ria, 2:4") for note in manifest.source.notes)
    found = {metric.name: metric.value for metric in manifest.metrics}
    assert found["removed"] == pytest.approx(receipt["total"]["removed"], rel=1e-4)
    for twin in ("dense", "pruned"):
        assert found[f"perplexity_{twin}"] == pytest.approx(receipt["perplexity"][twin], rel=1e-4)
    assert not (home / "models" / "smollm2" / "1" / "receipt.json").exists()


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
