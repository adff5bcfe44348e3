"""What `detect_text` answers: plain frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._errors import UsageError
from ._types import Timings, WarningNote


@dataclass(frozen=True, kw_only=True)
class DetectionThreshold:
    """What a score was held against.

    machine_above, human_at_most   scores between the two are inconclusive
    declared_false_positive_rate   human texts like those it was calibrated on that are called machine, at most
    true_positive_rate             machine texts it found when it was calibrated
    words                          the shortest and the longest text it holds for
    """

    id: str
    machine_above: float
    human_at_most: float
    declared_false_positive_rate: float
    true_positive_rate: float
    humans: int
    machines: int
    words: tuple[int, int]


@dataclass(frozen=True)
class EvidenceSpan:
    """text[start:end]: so many words in a row that a regeneration has too."""

    start: int
    end: int
    words: int
    regeneration: int


@dataclass(frozen=True)
class SentenceScore:
    """text[start:end] and how machine-like it is; None where it holds nothing that was judged."""

    start: int
    end: int
    score: float | None


@dataclass(frozen=True)
class NgramOverlap:
    """n-grams of the judged part that the regenerations have too."""

    n: int
    ratio: float
    shared: int


@dataclass(frozen=True, kw_only=True)
class TextVerdict:
    """The verdict on one text: evidence, not proof.

    verdict        "machine", "human", "inconclusive", "too_short" or "unsupported_script"
    score          of `statistic`, higher is more machine-like; None where nothing can be said
    threshold      None: the detector is not calibrated for this, and the verdict is inconclusive
    scores         every statistic by name
    regenerations  (asked, used); failures: by reason, those that did not come
    judged_from    the character the judged part begins at; before it the text was given
    texts          the regenerations, if they were asked for
    """

    id: str | None
    verdict: str
    score: float | None
    statistic: str
    threshold: DetectionThreshold | None
    scores: Mapping[str, float | None]
    overlaps: tuple[NgramOverlap, ...]
    evidence: tuple[EvidenceSpan, ...]
    sentences: tuple[SentenceScore, ...]
    regenerations: tuple[int, int]
    failures: Mapping[str, int]
    words: int
    judged_from: int | None
    warnings: tuple[WarningNote, ...]
    texts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> TextVerdict:
        """From the wire; KeyError, TypeError or ValueError if it is none."""
        used, read = raw["regenerations"], raw["text"]
        return cls(
            id=raw["id"],
            verdict=raw["verdict"],
            score=raw["score"],
            statistic=raw["statistic"],
            threshold=_threshold(raw["threshold"]),
            scores=dict(raw["scores"]),
            overlaps=tuple(NgramOverlap(**one) for one in raw["overlaps"]),
            evidence=tuple(EvidenceSpan(**one) for one in raw["evidence"]),
            sentences=tuple(SentenceScore(**one) for one in raw["sentences"]),
            regenerations=(used["asked"], used["used"]),
            failures=dict(used["failures"]),
            words=read["words"],
            judged_from=read["judged_from"],
            warnings=tuple(WarningNote(**one) for one in raw["warnings"]),
            texts=tuple(used.get("texts") or ()),
        )


@dataclass(frozen=True, kw_only=True)
class DetectTextResult:
    """The answer to one `detect_text` call. Iterate it or index `texts`; `verdict` is for the case of one.

    generator  who is suspected: name, version, digest, tokenizer_digest, and `upstream`, the model behind the
               operator's endpoint
    partial    a regeneration did not come
    """

    texts: tuple[TextVerdict, ...]
    mode: str
    partial: bool
    generator: Mapping[str, Any]
    model: str
    version: str
    digest: str
    request_id: str
    timings: Timings

    def __iter__(self) -> Iterator[TextVerdict]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def single(self) -> TextVerdict:
        """The only text's; UsageError if there are several."""
        if len(self.texts) != 1:
            raise UsageError(f"the answer is about {len(self.texts)} texts", hint="iterate the result")
        return self.texts[0]

    @property
    def verdict(self) -> str:
        """The only text's; UsageError if there are several."""
        return self.single.verdict

    @property
    def score(self) -> float | None:
        """The only text's; UsageError if there are several."""
        return self.single.score


def _threshold(raw: Mapping[str, Any] | None) -> DetectionThreshold | None:
    if raw is None:
        return None
    shortest, longest = raw["words"]
    return DetectionThreshold(**{**raw, "words": (shortest, longest)})
