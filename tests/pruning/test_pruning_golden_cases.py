"""The pruning methods answer as the papers' programs did, and a wrong formula is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import models.pruning.channel_permutation
import models.pruning.llm_surgeon.shots
import models.pruning.reconstruction
from export.golden.case import read_case
from export.golden.runners import run_case
from models.pruning.activations import InputStatistics
from models.pruning.llm_surgeon.curvature import Curvature
from models.pruning.scoring import SCORES, Score

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(
    path for system in ("ria", "channel_permutation", "llm_surgeon") for path in GOLDEN.glob(f"{system}/*.json")
)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_output_of_a_case_holds(path: Path) -> None:
    _, results = run_case(path)
    assert len(results) == len(read_case(path).group("output"))
    assert [result for result in results if result.verdict != "ok"] == []


def failing(name: str) -> set[str]:
    _, results = run_case(GOLDEN / name)
    return {result.output for result in results if result.verdict != "ok"}


def test_activations_to_another_power_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ria = SCORES["ria"]
    wrong = Score("ria", lambda weight, energy, power: ria.of(weight, energy, 2 * power), True, False)
    monkeypatch.setitem(SCORES, "ria", wrong)
    assert "score.ria" in failing("ria/linear_48x64.json")


def test_energy_averaged_over_tokens_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    add = InputStatistics.add
    monkeypatch.setattr(InputStatistics, "add", lambda self, inputs: add(self, inputs / inputs.shape[-2] ** 0.5))
    assert {"scaler_row", "score.wanda"} <= failing("ria/linear_48x64.json")


def test_a_zigzag_that_never_turns_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    straight = lambda ascending, slots: ascending.reshape(slots, -1).T.flatten()  # noqa: E731
    monkeypatch.setattr(models.pruning.channel_permutation, "zigzag", straight)
    assert "permutation.2of4.sum.heuristic" in failing("channel_permutation/linear_48x64.json")


def test_an_order_that_is_never_refined_keeps_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    unchanged = lambda score, pattern, slot: torch.arange(score.shape[1])  # noqa: E731
    monkeypatch.setattr(models.pruning.channel_permutation, "redeal", unchanged)
    assert "keep_mask.2of4.sum.heuristic_lsa" in failing("channel_permutation/linear_48x64.json")


def test_reconstruction_without_damping_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.pruning.reconstruction, "DAMPING", 0.1)
    assert failing("ria/linear_48x64.json") == {"weight.ria.unstructured_reconstructed"}


def test_unscaled_curvature_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curvature, "factors", lambda self: (self.inputs, self.outputs))
    assert any("curvature" in name for name in failing("llm_surgeon/structured_1shot.json"))


def test_removal_without_correction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = lambda weight, inverses, rows, columns, how: weight.masked_fill(rows[:, None] | columns, 0.0)  # noqa: E731
    monkeypatch.setattr(models.pruning.llm_surgeon.shots, "remove_structures", plain)
    found = failing("llm_surgeon/structured_1shot.json")
    assert any(name.startswith("weight.") for name in found)


def test_a_case_that_asks_for_another_fisher_is_refused_with_a_sentence(tmp_path: Path) -> None:
    source = GOLDEN / "llm_surgeon" / "structured_1shot.json"
    document = json.loads(source.read_text())
    document["config"]["kronecker_rank"] = 2
    (tmp_path / "case.json").write_text(json.dumps(document))
    shutil.copy(source.with_suffix(".safetensors"), tmp_path / "case.safetensors")
    _, (result,) = run_case(tmp_path / "case.json")
    assert result.verdict == "error"
    assert "kronecker_rank is 2" in result.detail


def test_an_official_pattern_names_the_pruned_number(tmp_path: Path) -> None:
    """An unseen case: 3 pruned of every 4, which no bundled case has."""
    source = GOLDEN / "ria" / "linear_48x64.json"
    document, tensors = json.loads(source.read_text()), load_file(source.with_suffix(".safetensors"))
    score = tensors["output.score.ria"]
    best = score.reshape(-1, 4).argmax(dim=1, keepdim=True)
    mask = torch.zeros(score.numel() // 4, 4, dtype=torch.int64).scatter_(1, best, 1).reshape(score.shape)
    mode = {"prune_method": "ria", "pattern": "3 pruned of every 4 consecutive inputs", "min_relative_margin": 1e-3}
    document["config"]["modes"] = {"ria.3pruned_of4": mode}
    kept = {name: t for name, t in tensors.items() if not name.startswith("output.")}
    (tmp_path / "case.json").write_text(json.dumps(document))
    save_file(kept | {"output.keep_mask.ria.3pruned_of4": mask}, tmp_path / "case.safetensors")
    _, (result,) = run_case(tmp_path / "case.json")
    assert (result.verdict, result.tolerance) == ("ok", "exact")
