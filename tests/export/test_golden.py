"""`verify golden`: one line an output, exit 0 only if all hold, 1 on any finding, 2 on misuse."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from export.golden.compare import Tolerance, compare
from pressroom.verify_golden import verify_golden

GOLDEN = Path(__file__).parents[1] / "golden"
NAME = "card_m4_uni"
Edit = Callable[[dict[str, Any], dict[str, Tensor]], None]


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Edit], Path]:
    """copied(edit) -> a folder with one case, changed by edit(document, tensors)."""

    def make(edit: Edit) -> Path:
        document = json.loads((GOLDEN / "card" / f"{NAME}.json").read_text())
        tensors = load_file(GOLDEN / "card" / f"{NAME}.safetensors")
        edit(document, tensors)
        (tmp_path / f"{NAME}.json").write_text(json.dumps(document))
        save_file(tensors, tmp_path / f"{NAME}.safetensors")
        return tmp_path

    return make


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.startswith(NAME)]


def test_all_bundled_cases_hold_one_line_an_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_golden([str(GOLDEN / "card"), str(GOLDEN / "itransformer")], as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["case", "output", "shape", "max", "|diff|", "max", "rel", "tolerance", "verdict"]
    assert len([line for line in lines if line.rstrip().endswith("ok")]) == 51
    assert lines[-1] == "7 cases, 51 outputs: all hold"


def test_json_carries_numbers_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_golden([str(GOLDEN / "card" / f"{NAME}.json")], as_json=True) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    forecast = case["outputs"][0]
    assert (case["case"], case["system"], case["holds"], len(case["outputs"])) == (NAME, "card", True, 7)
    assert (forecast["output"], forecast["shape"], forecast["verdict"]) == ("forecast", [4, 6, 1], "ok")
    assert 0 < forecast["max_abs"] < 4e-5


def test_a_file_and_its_folder_are_run_once(capsys: pytest.CaptureFixture[str]) -> None:
    folder = GOLDEN / "card"
    assert verify_golden([str(folder / f"{NAME}.safetensors"), str(folder), str(GOLDEN / "card")], as_json=True) == 0
    assert len(json.loads(capsys.readouterr().out)["cases"]) == 3


def test_a_difference_beyond_the_tolerance_is_a_finding(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(lambda document, tensors: tensors["output.forecast"][0, 0, 0].add_(0.1))
    assert verify_golden([str(folder)], as_json=False) == 1
    output = capsys.readouterr().out
    assert [row[-1] for row in rows(output)[:7]] == ["fail"] + ["ok"] * 6
    assert f"{NAME} forecast: 1 of 24 values outside the tolerance" in output


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda d, t: t.update({"output.block_9": torch.zeros(1)}), "no such output in our network"),
        (lambda d, t: t.pop("output.block_1"), "named in the JSON, missing in the safetensors file"),
        (lambda d, t: t.update({"output.forecast": torch.zeros(4, 6, 2)}), "shape [4, 6, 1], expected [4, 6, 2]"),
        (lambda d, t: t.pop("input.x_enc"), "input.x_enc is missing"),
        (lambda d, t: t.pop("state.model.cls"), "cls: missing"),
        (lambda d, t: d["config"].update(n_heads=5), "n_heads: got 5"),
        (lambda d, t: d.update(tolerance={"atol": "x"}), '"tolerance" must hold "atol" and "rtol"'),
        (lambda d, t: d.update(tolerance={"atol": float("nan")}), '"tolerance" must hold "atol" and "rtol"'),
        (lambda d, t: d.update(config=[1]), '"config" is a list, expected an object'),
        (lambda d, t: d.update(system="vgg"), 'no code here answers system "vgg" (known: arm, '),
        (lambda d, t: [t.pop(key) for key in list(t) if key.startswith("output.")], "missing in the safetensors file"),
    ],
)
def test_a_case_that_cannot_hold_says_why(
    copied: Any, capsys: pytest.CaptureFixture[str], edit: Edit, sentence: str
) -> None:
    assert verify_golden([str(copied(edit))], as_json=False) == 1
    assert sentence in capsys.readouterr().out


def test_a_case_without_any_expected_output_is_a_finding(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def strip(document: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        document.pop("outputs")
        for key in [key for key in tensors if key.startswith("output.")]:
            tensors.pop(key)

    assert verify_golden([str(copied(strip))], as_json=False) == 1
    assert "the case holds no expected output" in capsys.readouterr().out


def test_one_broken_case_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(GOLDEN / "card" / f"{NAME}.json", tmp_path / "alone.json")
    (tmp_path / "torn.json").write_text('{"system": "card"')
    shutil.copy(GOLDEN / "card" / f"{NAME}.json", tmp_path / "torn_tensors.json")
    (tmp_path / "torn_tensors.safetensors").write_bytes(b"\x00" * 40)
    assert verify_golden([str(tmp_path), str(GOLDEN / "card" / f"{NAME}.json")], as_json=False) == 1
    output = capsys.readouterr().out
    assert "alone.safetensors is missing beside it" in output
    assert "torn.json is not readable JSON" in output
    assert "torn_tensors.safetensors is not a readable safetensors file" in output
    assert [row[-1] for row in rows(output)] == ["ok"] * 7
    assert output.splitlines()[-1] == "4 cases, 10 outputs: 3 of them with findings"


def test_json_files_that_are_no_cases_are_passed_over_in_folders_and_refused_by_name(
    copied: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(lambda document, tensors: None)
    (folder / "config.json").write_text('{"d_model": 16}')
    assert verify_golden([str(folder)], as_json=True) == 0
    assert verify_golden([str(folder / "config.json")], as_json=False) == 2
    assert 'config.json is not a golden case: a case is a JSON object with a "system"' in capsys.readouterr().err


def test_misuse_is_answered_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_golden([str(tmp_path / "nowhere")], as_json=False) == 2
    assert "nowhere: no such file or folder" in capsys.readouterr().err
    assert verify_golden([str(tmp_path)], as_json=False) == 2
    assert "no golden case under" in capsys.readouterr().err
    assert verify_golden([], as_json=True) == 2


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "verdict"),
    [
        ([1.0, 2.00019], [1.0, 2.0], "ok"),  # 1e-4 + 1e-4 * 2 = 3e-4
        ([1.0, 2.00031], [1.0, 2.0], "fail"),
        ([NAN, 1.0], [NAN, 1.0], "ok"),
        ([NAN, 1.0], [1.0, 1.0], "fail"),
        ([1.0, 1.0], [NAN, 1.0], "fail"),
        ([INF, 1.0], [INF, 1.0], "ok"),
        ([-INF, 1.0], [INF, 1.0], "fail"),
        ([1e30, 1.0], [INF, 1.0], "fail"),
        ([], [], "ok"),
    ],
)
def test_floats_agree_within_the_tolerance_and_nan_only_with_nan(
    actual: list[float], expected: list[float], verdict: str
) -> None:
    result = compare("x", torch.tensor(actual), torch.tensor(expected), Tolerance(1e-4, 1e-4))
    assert result.verdict == verdict


def test_integers_must_be_equal_whatever_the_tolerance() -> None:
    expected = torch.tensor([1, 2, 3])
    assert compare("ids", expected.int(), expected, Tolerance(10.0)).verdict == "ok"
    off = compare("ids", torch.tensor([1, 2, 4]), expected, Tolerance(10.0))
    assert (off.verdict, off.max_abs, off.tolerance) == ("fail", 1.0, "exact")
    assert (
        compare("ids", expected.float(), expected, Tolerance(10.0)).detail
        == "dtype torch.float32, expected torch.int64"
    )
