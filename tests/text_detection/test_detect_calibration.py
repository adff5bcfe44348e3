"""Pressing and calibrating: what a new version holds, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from detecting import DETECTOR, Store

from export.errors import OptionError, ParityError
from export.text_detect import DetectorJob, plan
from export.text_detect_calibration import CALIBRATION, CalibrationJob, Corpus, Scored, measure
from export.text_detect_parity import Finding, certificate
from models.dna_gpt.detector import STATISTICS
from models.dna_gpt.traits import Traits
from models.llm.spec import LanguageModelSpec

LANGUAGE = LanguageModelSpec(
    vocabulary=8, layers=1, kv_heads=1, head_dim=1, context_length=8, precision="fp32", bos_token=None, end_tokens=(),
    add_bos=False,
)  # fmt: skip


def corpus(scores: Any, words: int = 60, skipped: dict[str, int] | None = None) -> Corpus:
    """Texts whose every statistic is this score."""
    names = STATISTICS["white_box"]
    scored = tuple(
        Scored(Traits(words + number, 40, 0.3 + number / 1000), dict.fromkeys(names, float(score)))
        for number, score in enumerate(scores)
    )
    return Corpus(file="texts.jsonl", sha256="0" * 64, scored=scored, skipped=skipped or {})


def job(human: Corpus, machine: Corpus, rate: float = 0.05, **changed: Any) -> CalibrationJob:
    facts = {"mode": "white_box", "upstream": "", "regenerations": 2, **changed}
    return CalibrationJob(rate=rate, human=human, machine=machine, **facts)


def test_every_statistic_gets_a_threshold_that_keeps_the_declared_rate() -> None:
    found = measure(job(corpus(np.arange(99)), corpus(np.arange(50, 149), words=100)))
    assert [one.statistic for one in found.thresholds] == list(STATISTICS["white_box"])
    first = found.thresholds[0]
    assert (first.threshold, first.human_threshold) == (94.0, 54.0)  # 4 of 99 humans lie above, 4 machines at or below
    assert first.false_positives.value == pytest.approx(4 / 99)
    assert (first.humans, first.machines, first.declared_rate) == (99, 99, 0.05)
    assert (first.coverage.fewest_words, first.coverage.most_words) == (57, 166)  # 60 to 158, with a margin
    assert first.coverage.least_common == 0.3


def test_a_thresholds_name_is_its_contents() -> None:
    one, again, other = (
        measure(job(corpus(np.arange(99)), corpus(np.arange(scores, 149)))).thresholds[0].id for scores in (50, 50, 51)
    )
    assert one == again != other
    assert one.startswith("w_score-")


@pytest.mark.parametrize(
    ("human", "machine", "rate", "option"),
    [
        (range(18), range(40), 0.05, "--human"),
        (range(40), range(18), 0.05, "--machine"),
        ((), range(40), 0.05, "--human"),
        (range(40), range(40), 0.0, "--fpr"),
        (range(40), range(40), 1.5, "--fpr"),
    ],
)
def test_too_few_texts_for_a_rate_are_refused(human: Any, machine: Any, rate: float, option: str) -> None:
    with pytest.raises(OptionError) as caught:
        measure(job(corpus(human, skipped={"too_short": 7}), corpus(machine), rate))
    assert caught.value.message.startswith(option)
    assert "too_short" in caught.value.hint


def test_the_new_version_holds_thresholds_scores_and_no_text(store: Store) -> None:
    before, after = store.read(DETECTOR, "1"), store.read(DETECTOR, "2")
    assert CALIBRATION not in before.manifest.files
    assert before.read_json("parity.json") == after.read_json("parity.json")
    thresholds = store.spec("2").thresholds
    (document,) = after.read_json(CALIBRATION)["calibrations"]
    assert document["thresholds"] == [json.loads(json.dumps(asdict(one))) for one in thresholds]
    assert [len(document["texts"][side]["scores"]) for side in ("human", "machine")] == [20, 20]
    assert document["texts"]["human"]["file"] == "human.jsonl"
    text = after.file(CALIBRATION).read_text("utf-8")
    assert "committee" not in text
    assert {metric.name for metric in after.manifest.metrics} >= {"auroc_w_score", "auroc_curvature"}


def test_the_example_is_answered_with_the_new_threshold(store: Store) -> None:
    before, after = (store.read(DETECTOR, version).read_json("example.json")["response"] for version in ("1", "2"))
    assert before["texts"][0]["threshold"] is None
    assert before["texts"][0]["scores"] == after["texts"][0]["scores"]
    wanted = store.spec("2").threshold("white_box", "curvature")
    assert wanted is not None
    assert after["texts"][0]["threshold"]["id"] == wanted.id


def finding(name: str, difference: float) -> Finding:
    scores = dict.fromkeys(STATISTICS["white_box"], 1.0)
    return Finding(name, (1, 2, 3), 1, ((4,),), scores, scores | {"curvature": 1.0 + difference})


@pytest.mark.parametrize("difference", [0.002, float("nan"), float("inf")])
def test_an_engine_that_scores_otherwise_than_the_graph_is_not_stored(difference: float) -> None:
    texts = [finding(str(number), 0.0) for number in range(5)]
    proof = certificate(texts, LANGUAGE)
    assert (proof["verdict"], proof["max_abs"], len(proof["cases"])) == ("pass", 0.0, 5)
    with pytest.raises(ParityError, match="odd"):
        certificate([*texts, finding("odd", difference)], LANGUAGE)


def test_a_score_on_one_side_only_is_a_difference() -> None:
    one = finding("x", 0.0)
    assert Finding(one.name, one.tokens, 1, (), {**one.served, "w_score": None}, one.reference).difference == np.inf


def test_too_few_texts_make_no_certificate() -> None:
    with pytest.raises(ParityError, match="4 of the certificate's texts"):
        certificate([finding(str(number), 0.0) for number in range(4)], LANGUAGE)


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"settings": {"ratio": 1.5}}, "--ratio"), ({"settings": {"fewest_words": 0}}, "--fewest-words"),
     ({"settings": {"white_box": "guess"}}, "--white-box"), ({"name": "Bad Name"}, "--name")],
)  # fmt: skip
def test_senseless_options_are_refused_before_anything_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], told: str
) -> None:
    opened: Callable[[str, str | None], Any] = lambda name, version: store.read(name)  # noqa: E731
    monkeypatch.setattr("export.text_detect.open_artifact", opened)
    with pytest.raises(OptionError) as caught:
        plan(DetectorJob(**{"generator": "tiny-fp32", "name": "d", **changed}))
    assert caught.value.message.startswith(told)


def test_only_language_models_generate(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("export.text_detect.open_artifact", lambda name, version: store.read(DETECTOR))
    with pytest.raises(OptionError, match="of family 'text-detect'"):
        plan(DetectorJob(generator=DETECTOR, name="d"))
