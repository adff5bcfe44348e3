"""The command line: exit status 0, 1 and 2, JSON alone on standard output, refusals in words, help with examples."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
ETTH1 = ("--data", "data/ett/ETTh1.csv", "--split", "ett-hourly")
BUNDLED = "data/checkpoints/itransformer_etth1_96_96"
EXPORT = ("export", "forecast", "itransformer", f"{BUNDLED}.safetensors", "--runtime", "torch")


def test_export_prints_what_was_stored(pressroom: Run, tmp_path: Path) -> None:
    done = pressroom(tmp_path, *EXPORT, "--name", "etth1", "--config", f"{BUNDLED}.json", *ETTH1, "--evaluate")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("etth1:1  sha256:")
    assert "parity certificate: ok, 8 cases" in done.stdout
    assert "mse 0.385807 on ETTh1.csv, test (ett-hourly) [measured]" in done.stdout
    assert done.stderr == ""


def test_export_json_is_all_of_standard_output(pressroom: Run, tmp_path: Path) -> None:
    done = pressroom(tmp_path, *EXPORT, "--name", "etth1", "--set", "n_heads=8", *ETTH1, "--json")
    answer = json.loads(done.stdout)
    assert (answer["tag"], answer["unchanged"], answer["certificate"]["verdict"]) == ("etth1:1", False, "ok")
    assert answer["hyper_parameter_origins"]["n_heads"] == "flag"
    assert answer["hyper_parameter_origins"]["d_model"] == "tensor shapes"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--set", "n_heads=8", "--set", "d_model=128", *ETTH1), 1, "d_model: 128 (flag) contradicts"),
        ((*ETTH1,), 1, "n_heads: missing"),
        (("--set", "n_heads", *ETTH1), 2, "--set 'n_heads' is not NAME=VALUE"),
        (("--set", "n_heads=8"), 2, "no scaler and none was given"),
        (("--set", "n_heads=8", "--data", "data/ett/ETTh1.csv"), 2, "--data without --split"),
        (("--set", "n_heads=8", "--data", "nowhere.csv"), 2, "nowhere.csv"),
    ],
)
def test_refusals_are_words_on_standard_error(
    invoke: Run, home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], status: int, words: str
) -> None:
    monkeypatch.chdir(ROOT)
    done = invoke(*EXPORT, "--name", "x", *arguments)
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_refusal_with_json_is_json(pressroom: Run, tmp_path: Path) -> None:
    done = pressroom(tmp_path, *EXPORT, "--name", "x", *ETTH1, "--json")
    assert done.returncode == 1
    assert "n_heads: missing" in json.loads(done.stdout)["error"]["message"]
    assert done.stderr.startswith("error: ")
    assert "\nhint: " in done.stderr


def test_verify_repeats_the_certificate(pressroom: Run, pressed_home: Path) -> None:
    done = pressroom(pressed_home, "verify", "card-etth1")
    assert done.returncode == 0, done.stderr
    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["output", "case", "shape", "graph", "pipeline", "tolerance", "verdict"]
    assert [row.split()[1] for row in rows[:3]] == ["batch-1", "batch-7", "constant-column"]
    assert all(row.split()[-1] == "ok" for row in rows[:-1])
    assert rows[-1].startswith("card-etth1:1 sha256:")


def test_verify_json_holds_every_case(invoke: Run, bundled_store: Path) -> None:
    answer = json.loads(invoke("verify", "itransformer-etth1:1", "--json").stdout)
    assert answer["holds"] is True
    assert len(answer["cases"]) == 8
    assert answer["example"]["holds"] is True


def test_verify_names_a_damaged_file(invoke: Run, copied_home: Path) -> None:
    weights = copied_home / "models" / "card-etth1" / "1" / "model.onnx"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    done = invoke("verify", "card-etth1")
    assert done.returncode == 1
    assert "card-etth1:1: model.onnx is damaged" in done.stderr


@pytest.mark.parametrize("verb", ["verify", "inspect"])
@pytest.mark.parametrize("target", ["nothing", "card-etth1:9"])
def test_an_unknown_artifact_is_misuse(invoke: Run, bundled_store: Path, verb: str, target: str) -> None:
    done = invoke(verb, target)
    assert done.returncode == 2
    assert f"no artifact {target} in the model store" in done.stderr


def test_inspect_shows_origin_signature_and_certificate(invoke: Run, bundled_store: Path) -> None:
    shown = invoke("inspect", "itransformer-etth1").stdout
    for words in (
        "thuml/iTransformer at c2426e68ca13, licence: MIT",
        "[batch, 96, 7]",
        "scaler fitted on rows 0:8640",
        "parity certificate: ok, 8 cases",
        "calendar marks from the wall clock: hour, weekday, day, yearday",
    ):
        assert words in shown


def test_inspect_json_is_the_manifest(invoke: Run, bundled_store: Path) -> None:
    answer: Any = json.loads(invoke("inspect", "card-etth1", "--json").stdout)
    assert answer["manifest"]["architecture"] == "card"
    assert answer["certificate"]["verdict"] == "ok"


def test_models_lists_the_store(invoke: Run, bundled_store: Path) -> None:
    rows = invoke("models").stdout.splitlines()
    assert rows[0].split() == ["name", "version", "family", "architecture", "digest", "size", "certificate"]
    assert [row.split()[:4] for row in rows[1:]] == [
        ["card-etth1", "1", "forecast", "card"],
        ["itransformer-etth1", "1", "forecast", "itransformer"],
    ]


def test_an_empty_store_is_said(invoke: Run, home: Path) -> None:
    assert "no artifact yet" in invoke("models").stdout
    assert json.loads(invoke("models", "--json").stdout) == []


def test_a_home_that_cannot_be_had_is_said(pressroom: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = pressroom(tmp_path / "file", "models")
    assert done.returncode == 1
    assert "the model store cannot be opened" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "verb", [(), ("export",), ("export", "forecast"), ("export", "bundled"), ("verify",), ("inspect",), ("models",)]
)
def test_help_is_quick_and_gives_an_example(pressroom: Run, tmp_path: Path, verb: tuple[str, ...]) -> None:
    before = time.monotonic()
    done = pressroom(tmp_path, *verb, "--help")
    assert time.monotonic() - before < 5  # far below a second on a quiet machine; importing torch alone takes longer
    assert done.returncode == 0
    assert not verb or "Example" in done.stdout


def test_help_does_not_import_torch(pressroom: Run, tmp_path: Path) -> None:
    done = pressroom(tmp_path, "--help", PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & {"torch", "bentoml", "pandas", "onnxruntime"}


def test_the_version_is_the_packages(pressroom: Run, tmp_path: Path) -> None:
    assert pressroom(tmp_path, "--version").stdout == "pressroom 0.1.0\n"


def test_verify_golden_goes_to_the_golden_cases(pressroom: Run, tmp_path: Path) -> None:
    done = pressroom(tmp_path, "verify", "golden", "tests/golden/card/card_m4_uni.json")
    assert done.returncode == 0, done.stderr
    assert "all hold" in done.stdout


@pytest.mark.parametrize("arguments", [("verify",), ("verify", "x", "y"), ("press",), ("verify", "golden")])
def test_a_command_that_makes_no_sense_is_misuse(invoke: Run, home: Path, arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).returncode == 2
