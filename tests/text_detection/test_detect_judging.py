"""From scores to words: a verdict only where a threshold was calibrated for just this case."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from detecting import PROSE

from models.dna_gpt.detector import DetectorSpec, Generator, Mode, Threshold
from models.dna_gpt.one_pass import Moments
from models.dna_gpt.parts import head, take_apart
from models.dna_gpt.rate import Rate
from models.dna_gpt.reading import Reading, Regeneration
from models.dna_gpt.traits import Coverage, traits
from services.text_detection.asking import Asked
from services.text_detection.judging import Prepared, judge
from services.text_detection.request import DetectRequest

RATE = Rate(0.5, 0.4, 0.6)
THRESHOLD = Threshold(
    id="w_score-1",
    mode="white_box",
    statistic="w_score",
    upstream="",
    regenerations=2,
    threshold=0.5,
    human_threshold=-0.5,
    declared_rate=0.05,
    confidence=0.95,
    humans=40,
    machines=40,
    false_positives=RATE,
    true_positives=RATE,
    area=RATE,
    coverage=Coverage(fewest_words=20, most_words=40, least_common=0.2),
)
SPEC = DetectorSpec(
    generator=Generator(name="lm", version="1", digest="sha256:0", tokenizer_digest="sha256:1"),
    regenerations=2,
    thresholds=(THRESHOLD,),
)
REQUEST = DetectRequest((), "white_box", "w_score", 2, False)


def judged(score: float | None, *, text: str = PROSE, failures: Any = (), upstream: str = "", **changed: Any) -> Any:
    """What is said about a text of this W-score."""
    prepared = Prepared(text, traits(text), None, None, {})
    parts = take_apart(text, [1, 2], [(0, 3), (3, len(text))], 0.5)
    asked = Asked(Reading(parts, None, ()), Counter(failures))
    request = replace(REQUEST, **changed)
    return judge(prepared, asked, {request.statistic: score}, request, SPEC, upstream)


@pytest.mark.parametrize(
    ("score", "verdict"),
    [(0.6, "machine"), (0.5, "inconclusive"), (0.0, "inconclusive"), (-0.5, "human"), (-3.0, "human")],
)
def test_between_the_thresholds_nothing_is_said(score: float, verdict: str) -> None:
    assert judged(score).verdict == verdict
    assert judged(score).threshold is THRESHOLD


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        ({"statistic": "curvature"}, "not_calibrated"),
        ({"mode": "black_box"}, "not_calibrated"),
        ({"upstream": "another-model"}, "not_calibrated"),
        ({"regenerations": 3}, "other_regenerations"),
        ({"failures": {"timeout": 1}}, "regenerations_missing"),
        ({"text": " ".join(PROSE.split()[:19])}, "outside_calibration"),
        ({"text": f"{PROSE} {PROSE}"}, "outside_calibration"),
        ({"text": "Le conseil se réunit mardi soir dans la vieille salle " * 3}, "outside_calibration"),
    ],
)
def test_any_doubt_makes_a_high_score_inconclusive(changed: dict[str, Any], warning: str) -> None:
    found = judged(9.0, **changed)
    assert found.verdict == "inconclusive"
    assert found.score == 9.0
    assert list(found.warnings) == [warning]


def test_one_pass_statistics_do_not_care_how_many_regenerations_there_are() -> None:
    spec = SPEC.calibrated((replace(THRESHOLD, statistic="curvature", id="curvature-1"),))
    prepared = Prepared(PROSE, traits(PROSE), None, None, {})
    request = replace(REQUEST, statistic="curvature", regenerations=0)
    asked = Asked(Reading(take_apart(PROSE, [1, 2], [(0, 3), (3, 9)], 0.5), None, ()))
    assert judge(prepared, asked, {"curvature": 9.0}, request, spec, "").verdict == "machine"


def test_what_both_thresholds_claim_is_nobodys() -> None:
    spec = SPEC.calibrated((replace(THRESHOLD, threshold=-1.0, human_threshold=1.0),))
    prepared = Prepared(PROSE, traits(PROSE), None, None, {})
    asked = Asked(Reading(take_apart(PROSE, [1, 2], [(0, 3), (3, 9)], 0.5), None, ()))
    verdicts = [judge(prepared, asked, {"w_score": score}, REQUEST, spec, "").verdict for score in (-2.0, 0.0, 2.0)]
    assert verdicts == ["human", "inconclusive", "machine"]


def test_a_calibration_replaces_those_of_its_own_mode_and_endpoint() -> None:
    black = replace(THRESHOLD, mode="black_box", statistic="demo", upstream="gpt", id="demo-1")
    spec = SPEC.calibrated((black,))
    assert spec.thresholds == (THRESHOLD, black)
    renewed = spec.calibrated((replace(THRESHOLD, id="w_score-2"),))
    assert [one.id for one in renewed.thresholds] == ["demo-1", "w_score-2"]
    assert renewed.threshold("black_box", "demo", "gpt") is black
    assert renewed.threshold("black_box", "demo", "other") is None


def test_settings_survive_the_manifest() -> None:
    assert DetectorSpec.from_settings(SPEC.as_settings()) == SPEC


@pytest.mark.parametrize(
    "changed",
    [{"ratio": 1.0}, {"regenerations": 0}, {"temperature": 0.0}, {"white_box": "guess"}, {"black_box": "w_score"}],
)
def test_senseless_settings_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changed))):
        DetectorSpec.from_settings(SPEC.as_settings() | changed)


def test_the_head_of_a_text_keeps_its_white_space() -> None:
    assert head("  one \n two\tthree  ", 2) == "  one \n two"
    assert head("one two", 5) == "one two"
    assert head(" \n ", 5) == ""


@pytest.mark.parametrize("mode", ["white_box", "black_box"])
def test_sentence_scores_and_evidence_stand_where_the_text_has_them(mode: Mode) -> None:
    text = "Alpha beta gamma delta. The quick brown fox jumps over dogs. It sleeps."
    words = text.split()
    starts, at = [], 0
    for word in words:
        at = text.index(word, at)
        starts.append(at)
    spans = [(start, start + len(word)) for start, word in zip(starts, words, strict=True)]
    parts = take_apart(text, list(range(len(words))), spans, 0.4)
    assert parts.remainder.startswith("quick brown fox")
    values = np.arange(1.0, len(words))
    moments = Moments(values, np.zeros_like(values), np.ones_like(values)) if mode == "white_box" else None
    again = Regeneration("A quick brown fox jumps over cats", (7,), (2.0,))
    reading = Reading(parts, moments, (again,))
    (run,) = reading.runs
    assert text[run.start : run.end] == "quick brown fox jumps over"
    found = reading.sentence_scores("w_score" if mode == "white_box" else "demo")
    assert text[found[0].sentence.start : found[0].sentence.end] == "Alpha beta gamma delta."
    if mode == "white_box":  # judged tokens carry 5, 6, ...; the baseline is 2
        assert [one.score for one in found] == [None, np.mean([5, 6, 7, 8, 9, 10]) - 2, np.mean([11, 12]) - 2]
    else:
        assert [one.score for one in found] == [None, 5 / 6, 0.0]
