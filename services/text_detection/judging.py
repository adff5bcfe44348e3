"""From a text to its verdict: what may be said is said by a threshold that was calibrated for just this case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.dna_gpt.detector import ONE_PASS, DetectorSpec, Threshold
from models.dna_gpt.parts import Parts, head, take_apart
from models.dna_gpt.traits import Traits, traits
from models.dna_gpt.verdict import Verdict, decide, refusal
from services.generation.tokenizer import Tokenizer
from services.text_detection.asking import Asked
from services.text_detection.request import DetectRequest

_LONGEST_WORD = 24  # characters a word on average that are looked at; a text of longer ones is no prose

Warnings = dict[str, str]  # code -> message


@dataclass(frozen=True)
class Prepared:
    """A text before anything is asked about it.

    refused  the verdict, where nothing can be said
    parts    what is asked about, where something can
    """

    read: str
    traits: Traits
    refused: Verdict | None
    parts: Parts | None
    warnings: Warnings


@dataclass(frozen=True)
class Judged:
    """What is said about a text, and why not more. threshold: the one the score is held against, if there is one."""

    verdict: Verdict
    score: float | None
    threshold: Threshold | None
    warnings: Warnings


def prepare(text: str, spec: DetectorSpec, tokenizer: Tokenizer, context: int) -> Prepared:
    """Read the head of a text and cut it. context: tokens that can be read."""
    read = head(text[: spec.most_words * _LONGEST_WORD], spec.most_words)
    warnings: Warnings = {}
    parts = None
    refused = refusal(read, spec.fewest_words, spec.fewest_distinct)
    if refused is None:
        tokens, spans = tokenizer.encode_with_spans(read)
        if len(tokens) > context:
            read, tokens, spans = read[: spans[context - 1][1]], tokens[:context], spans[:context]
            refused = refusal(read, spec.fewest_words, spec.fewest_distinct)
        if refused is None:
            parts = take_apart(read, tokens, spans, spec.ratio)
    if len(text.rstrip()) > len(read):
        warnings["text_truncated"] = f"the first {len(read)} of {len(text)} characters were read"
    return Prepared(read, traits(read), refused, parts, warnings)


def judge(
    prepared: Prepared, asked: Asked, scores: Mapping[str, float | None], request: DetectRequest, spec: DetectorSpec,
    upstream: str,
) -> Judged:  # fmt: skip
    """Only a threshold of the same generator, statistic and number of regenerations, for such texts, decides."""
    threshold = spec.threshold(request.mode, request.statistic, upstream)
    warnings = dict(prepared.warnings)
    doubts: Warnings = {}
    missing = sum(asked.failures.values())
    if missing:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(asked.failures.items()))
        doubts["regenerations_missing"] = f"{missing} of {request.regenerations} did not come: {reasons}"
    if threshold is None:
        doubts["not_calibrated"] = "no threshold for this generator and statistic: `pressroom calibrate text-detect`"
    else:
        if request.statistic not in ONE_PASS and request.regenerations != threshold.regenerations:
            doubts["other_regenerations"] = f"calibrated with {threshold.regenerations}, not {request.regenerations}"
        if (why := threshold.coverage.excludes(prepared.traits)) is not None:
            doubts["outside_calibration"] = why
    score = scores.get(request.statistic)
    verdict = "inconclusive" if doubts else decide(score, threshold)
    return Judged(verdict, score, threshold, warnings | doubts)
