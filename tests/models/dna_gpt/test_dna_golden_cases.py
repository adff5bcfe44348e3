"""DNA-GPT answers as the official program did, and a wrong formula is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

import models.dna_gpt.overlap
import models.dna_gpt.words
from export.golden.case import read_case
from export.golden.runners import run_case
from models.dna_gpt.weighting import WEIGHTINGS, Weighting

GOLDEN = Path(__file__).parents[2] / "golden" / "dna_gpt"
CASES = sorted(GOLDEN.glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_output_holds(path: Path) -> None:
    _, results = run_case(path)
    assert [result for result in results if result.verdict != "ok"] == []
    case = read_case(path)
    if case.tensors_path.is_file():
        assert {result.output for result in results} >= set(case.group("output"))


def failing(name: str) -> set[str]:
    return {result.output for result in run_case(GOLDEN / f"{name}.json")[1] if result.verdict != "ok"}


def test_unstemmed_words_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.dna_gpt.words, "STEMMED_FROM", 99)
    models.dna_gpt.words.stem.cache_clear()
    assert "human_like.tokens" in failing("blackbox_basic")
    models.dna_gpt.words.stem.cache_clear()


def test_overlap_that_is_not_clipped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(one: list[str], other: list[str], size: int) -> int:
        theirs = set(models.dna_gpt.overlap.ngrams(other, size))
        return sum(gram in theirs for gram in models.dna_gpt.overlap.ngrams(one, size))

    monkeypatch.setattr(models.dna_gpt.overlap, "_shared", unclipped)
    assert "machine_like.ngram_overlap" in failing("blackbox_basic")


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_no_weighting_passes_for_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Weighting("wrong", 2, 0, 2, 24, True)
    monkeypatch.setattr(f"export.golden.dna_gpt.{name.upper()}", wrong)
    assert f"machine_like.score_{name}_per_regen" in failing("blackbox_basic")
