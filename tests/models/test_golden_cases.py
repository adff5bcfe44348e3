"""Our networks answer as the official programs did, intermediates included, and a wrong formula is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import models.card.network
import models.itransformer.network
from export.golden.case import read_case
from export.golden.forecast import run
from models.card.attention import Attention
from models.forecasting.batch_norm import ChannelNorm

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted([*GOLDEN.glob("itransformer/*.json"), *GOLDEN.glob("card/*.json")])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_output_is_within_the_stated_tolerance(path: Path) -> None:
    results = run(read_case(path))
    assert len(results) == len(read_case(path).document["outputs"])
    assert [r for r in results if r.verdict != "ok"] == []


def verdicts(name: str) -> dict[str, str]:
    case = next(path for path in CASES if path.stem == name)
    return {result.output: result.verdict for result in run(read_case(case))}


def test_itransformer_with_another_variance_floor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.itransformer.network, "VARIANCE_FLOOR", 1e-4)
    assert verdicts("itransformer_m7_96_96_marks")["forecast"] == "fail"


def test_card_with_another_deviation_floor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.card.network, "DEVIATION_FLOOR", 1e-3)
    assert verdicts("card_ett_96_96")["forecast"] == "fail"


def test_card_with_another_batch_norm_epsilon_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChannelNorm, "EPS", 1e-2)
    assert verdicts("card_ett_96_96")["forecast"] == "fail"


def test_card_with_unsmoothed_queries_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attention, "smooth", lambda self, rows: rows)
    assert verdicts("card_l720_statistic")["forecast"] == "fail"


def test_card_with_scores_divided_instead_of_multiplied_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.card.attention.math.sqrt", lambda x: x**-0.5)
    assert verdicts("card_m4_uni")["forecast"] == "fail"


def test_cases_are_read_without_touching_the_random_state_of_the_weights() -> None:
    case = next(path for path in CASES if path.stem == "card_m4_uni")
    torch.manual_seed(1)
    first = run(read_case(case))
    torch.manual_seed(2)
    assert run(read_case(case)) == first
