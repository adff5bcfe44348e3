"""The detection route's request and response, as its OpenAPI document describes them.

Documentation only: `services.text_detection.request` validates, because its refusals name the offending place.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from models.dna_gpt.verdict import Verdict
from services.core.answer import Explained

Mode = Literal["white_box", "black_box"]


class TextEntry(BaseModel):
    """One of several texts."""

    model_config = ConfigDict(extra="forbid")

    text: str
    id: str | None = Field(None, description="your name for the text; comes back with its verdict")


class DetectRequest(BaseModel):
    """Ask whether texts were written by the detector's generator, or a model like it."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one detector is served")
    version: str | None = Field(None, description="served version; default: the newest")
    text: str | None = Field(None, description="one text, or `texts`")
    texts: list[str | TextEntry] | None = Field(None, description="several texts, or `text`")
    mode: Mode = Field(
        "white_box",
        description="`white_box`: log-probabilities of the served language model; `black_box`: words of the operator's "
        "endpoint",
    )
    statistic: str | None = Field(
        None,
        description="white box: w_score, curvature, mean_log_prob, demo, notebook or formula; black box: the last "
        "three; default: the detector's",
    )
    regenerations: int | None = Field(
        None, ge=0, le=64, description="default: as many as it was calibrated with; one-pass statistics need none"
    )
    return_regenerations: bool = Field(False, description="send the regenerated texts back")


class DetectThreshold(BaseModel):
    """What a score is held against, and what that is worth."""

    id: str
    machine_above: float
    human_at_most: float
    declared_false_positive_rate: float
    true_positive_rate: float = Field(description="on the machine texts it was calibrated on")
    humans: int
    machines: int
    words: tuple[int, int] = Field(description="shortest and longest text it was calibrated on")


class NgramOverlap(BaseModel):
    """n-grams the judged part shares with the regenerations."""

    n: int
    ratio: float = Field(description="shared / n-grams of the judged part / words of the regeneration, on average")
    shared: int


class EvidenceSpan(BaseModel):
    """Words of the judged part that a regeneration has too: text[start:end]."""

    start: int
    end: int
    words: int
    regeneration: int


class SentenceScore(BaseModel):
    """text[start:end] and how machine-like it is; null where it holds nothing that was judged."""

    start: int
    end: int
    score: float | None


class RegenerationUse(BaseModel):
    """How many continuations were asked for and used, and why others did not come."""

    asked: int
    used: int
    failures: dict[str, int]
    texts: list[str] | None = None


class TextRead(BaseModel):
    """How much of the text was read, and the character its judged part begins at."""

    characters: int
    words: int
    judged_from: int | None


class DetectWarning(BaseModel):
    """Something that limits the verdict."""

    code: str
    message: str


class TextVerdict(BaseModel):
    """The verdict on one text and what it rests on. Evidence, not proof."""

    id: str | None
    verdict: Verdict
    score: float | None = Field(description="of the statistic; higher is more machine-like")
    statistic: str
    threshold: DetectThreshold | None
    scores: dict[str, float | None]
    overlaps: list[NgramOverlap]
    evidence: list[EvidenceSpan]
    sentences: list[SentenceScore]
    regenerations: RegenerationUse
    text: TextRead
    warnings: list[DetectWarning]


class GeneratorUsed(BaseModel):
    """Who continued the texts: the served language model, or the model behind the operator's endpoint."""

    name: str
    version: str
    digest: str
    tokenizer_digest: str
    upstream: str | None


class DetectResponse(Explained):
    """Verdicts in the order of the request, and which detector made them."""

    batch_rows: int = Field(description="most sequences that shared a step with this request's")
    mode: Mode
    generator: GeneratorUsed
    partial: bool = Field(description="a regeneration did not come")
    texts: list[TextVerdict]


def example_request() -> dict[str, Any]:
    """A request the bundled detector answers."""
    text = (
        "The committee met in the old town hall on a rainy Tuesday evening, and although nobody had expected much of "
        "the agenda, three proposals were passed before supper: a bridge for cyclists, longer opening hours at the "
        "library, and a small grant for the brass band, whose conductor thanked everyone at length and played a march."
    )
    return {"model": "smollm2-text", "text": text}
