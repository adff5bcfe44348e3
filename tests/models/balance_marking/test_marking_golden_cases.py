"""Balance-Marking answers as the official program did, and a wrong formula is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import models.balance_marking.partition
from export.golden.case import read_case
from export.golden.runners import run_case

GOLDEN = Path(__file__).parents[2] / "golden" / "balance_marking"
CASES = sorted(path for path in GOLDEN.glob("*.json") if path.stem != "smollm2_real_text")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_output_holds(path: Path) -> None:
    _, results = run_case(path)
    assert [result for result in results if result.verdict != "ok"] == []
    case, names = read_case(path), {result.output for result in results}
    assert names >= set(case.group("output")) | set(case.document.get("decoded", {}))


def test_messages_counts_and_p_values_of_real_texts_hold(tmp_path: Path) -> None:
    """Three of them; each counts 2^20 messages twice."""
    path = changed(tmp_path, "smollm2_real_text", items=slice(3, 12, 4))
    _, results = run_case(path)
    assert len(results) == 9
    assert [result for result in results if result.verdict != "ok"] == []


def failing(path: Path) -> set[str]:
    return {result.output for result in run_case(path)[1] if result.verdict != "ok"}


def test_another_stride_of_tokens_is_noticed(tmp_path: Path) -> None:
    assert {"log_p", "counts", "available_mask"} <= failing(
        changed(tmp_path, "vanilla_marking", max_vocab_size_constant=99_999)
    )


def test_another_key_is_noticed(tmp_path: Path) -> None:
    assert {"log_p", "counts", "messages", "generated_ids"} <= failing(changed(tmp_path, "vanilla_marking", wm_seed=43))


def test_a_mark_taken_away_instead_of_added_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.balance_marking.partition.RandomPartition, "__init__", _held_back)
    assert {"scores_after"} <= failing(GOLDEN / "vanilla_marking.json")


def changed(folder: Path, name: str, *, items: slice | None = None, **config: object) -> Path:
    """A copy of a case with other hyper-parameters, or with some of its items."""
    source = GOLDEN / f"{name}.json"
    document = json.loads(source.read_text())
    document["config"] |= config
    if items is not None:
        document["items"] = document["items"][items]
    copy = folder / source.name
    copy.write_text(json.dumps(document))
    shutil.copy(source.with_suffix(".safetensors"), folder)
    return copy


def _held_back(self: object, config: object, held_back: bool = True, stride: int = 100_000) -> None:
    for name, value in (("config", config), ("held_back", True), ("stride", stride)):
        object.__setattr__(self, name, value)
