"""The answer about one text as JSON. Places are characters of the text as it was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.dna_gpt.detector import Threshold
from models.dna_gpt.reading import Reading
from services.text_detection.asking import Asked
from services.text_detection.judging import Judged, Prepared, Warnings
from services.text_detection.request import DetectRequest, SentText

Json = dict[str, Any]


def refused_text(sent: SentText, prepared: Prepared, request: DetectRequest) -> Json:
    """Nothing can be said: the verdict tells why."""
    return {
        "id": sent.id,
        "verdict": prepared.refused,
        "score": None,
        "statistic": request.statistic,
        "threshold": None,
        "scores": {},
        "overlaps": [],
        "evidence": [],
        "sentences": [],
        "regenerations": {"asked": 0, "used": 0, "failures": {}},
        "text": _read(prepared),
        "warnings": _warnings(prepared.warnings),
    }


def judged_text(
    sent: SentText, prepared: Prepared, asked: Asked, judged: Judged, scores: Mapping[str, float | None],
    request: DetectRequest,
) -> Json:  # fmt: skip
    """A verdict with all it rests on."""
    reading = asked.reading
    return {
        "id": sent.id,
        "verdict": judged.verdict,
        "score": judged.score,
        "statistic": request.statistic,
        "threshold": None if judged.threshold is None else _threshold(judged.threshold),
        "scores": dict(scores),
        "overlaps": _overlaps(reading),
        "evidence": [
            {"start": run.start, "end": run.end, "words": run.words, "regeneration": run.regeneration}
            for run in reading.runs
        ],
        "sentences": [
            {"start": one.sentence.start, "end": one.sentence.end, "score": one.score}
            for one in reading.sentence_scores(request.statistic)
        ],
        "regenerations": _regenerations(asked, request),
        "text": _read(prepared) | {"judged_from": reading.parts.position},
        "warnings": _warnings(judged.warnings),
    }


def _threshold(threshold: Threshold) -> Json:
    coverage = threshold.coverage
    return {
        "id": threshold.id,
        "machine_above": threshold.threshold,
        "human_at_most": threshold.human_threshold,
        "declared_false_positive_rate": threshold.declared_rate,
        "true_positive_rate": threshold.true_positives.value,
        "humans": threshold.humans,
        "machines": threshold.machines,
        "words": [coverage.fewest_words, coverage.most_words],
    }


def _overlaps(reading: Reading) -> list[Json]:
    """By n, up to the longest that any regeneration shares."""
    black = reading.black
    if not black.overlaps:
        return []
    means = black.mean_ratio().tolist()
    shared = [sum(int(one.shared[n]) for one in black.overlaps) for n in range(len(means))]
    longest = max((n + 1 for n, count in enumerate(shared) if count), default=0)
    return [{"n": n + 1, "ratio": means[n], "shared": shared[n]} for n in range(longest)]


def _regenerations(asked: Asked, request: DetectRequest) -> Json:
    found: Json = {
        "asked": request.regenerations,
        "used": len(asked.reading.black.usable),
        "failures": dict(sorted(asked.failures.items())),
    }
    if request.shows_texts:
        found["texts"] = [one.text for one in asked.reading.regenerations]
    return found


def _read(prepared: Prepared) -> Json:
    return {"characters": len(prepared.read), "words": prepared.traits.words, "judged_from": None}


def _warnings(warnings: Warnings) -> list[Json]:
    return [{"code": code, "message": message} for code, message in warnings.items()]
