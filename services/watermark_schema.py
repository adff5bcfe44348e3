"""Requests and answers of the watermark routes, as their OpenAPI document describes them.

Documentation only: the readers in `services.marking` validate, because their refusals name the place and the remedy.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.core.answer import Explained

Json = dict[str, Any]
Verdict = Literal["marked", "not_marked", "inconclusive", "too_short"]


class WatermarkFields(BaseModel):
    """The message and how to embed it: exactly one of message, bits, label."""

    model_config = ConfigDict(extra="forbid")

    message: int | None = Field(None, ge=0, le=2**53 - 1, description="a whole number")
    message_bits: int | None = Field(None, ge=1, le=400, description="its width; default: one segment")
    bits: str | None = Field(None, description="the message as characters 0 and 1, most significant first")
    label: str | None = Field(None, description="a short text the registry keeps; no personal data belongs in it")
    key_id: str | None = Field(None, description="the key; default: the current one")
    delta: float | None = Field(None, gt=0, le=20, description="strength in logits; default: the scheme's")


class GenerateRequest(BaseModel):
    """A completion (`prompt`) or a chat (`messages`) with the fields of those routes, one answer, not streamed."""

    model_config = ConfigDict(extra="allow")

    model: str | None = Field(None, description="the watermarking scheme; may be left out if one is served")
    prompt: str | list[int] | None = None
    messages: list[Json] | None = None
    watermark: WatermarkFields | None = Field(
        None, description="left away where the server's policy says what to embed"
    )
    max_tokens: int | None = Field(None, ge=1, description="default: as many as the whole message needs")
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None
    ignore_eos: bool | None = Field(None, description="go on after the model's end token, so that all is embedded")


class GenerateResponse(Explained):
    """The marked text and how much of the message it carries."""

    text: str
    finish_reason: Literal["stop", "length"]
    tokens: int
    prompt_tokens: int
    segments: int = Field(description="of the message, error correction included")
    segments_embedded: int = Field(description="of these, the ones that stand in the text in full")
    fully_embedded: bool
    key_id: str
    delta: float
    generator: Json = Field(description="name, version and digest of the language model")


class DecodeRequest(BaseModel):
    """One text or several to be read."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    version: str | None = None
    text: str | None = None
    texts: list[str] | None = Field(None, description="at most 64")
    message_bits: int | None = Field(None, ge=1, le=400, description="width of the message; default: one segment")
    key_id: str | None = Field(None, description="try this key only; default: all known ones")
    candidates: list[int] | Literal["registered"] | None = Field(
        None, description="look for these messages of one segment only; default: for all"
    )
    top: int | None = Field(None, ge=1, le=20, description="candidates listed a segment; default: 3")
    return_marks: bool = Field(False, description="tell of every token what it says")


class Candidate(BaseModel):
    """A message of one segment, and the tokens that were available to it."""

    message: int
    count: int


class SegmentReading(BaseModel):
    """What one segment's tokens say."""

    message: int | None = Field(description="the likeliest; means nothing unless the verdict is `marked`")
    count: int
    margin: int = Field(description="by how many tokens it leads the second")
    scored_tokens: int
    unique_tokens: int = Field(description="different pairs of neighbours: these vote")
    p_value: float = Field(description="of the best of all candidates; even from 0 to 1 where nothing is embedded")
    power: float = Field(description="probability that an unedited mark would have been seen")
    verdict: Verdict
    candidates: list[Candidate]


class TokenMark(BaseModel):
    """What one token says: text[start:end]."""

    start: int
    end: int
    segment: int | None = Field(description="of the message, from 0; null: the token stands before what is marked")
    available: bool | None = Field(
        description="to the segment's likeliest message; by chance half of all tokens are. null: as above"
    )
    counted: bool = Field(description="false: the same pair of neighbours came earlier and has had its vote")


class TextReading(BaseModel):
    """What one text says under the key that says most, corrected for the number of keys tried."""

    verdict: Verdict
    p_value: float
    level: float = Field(description="declared rate at which unmarked texts are called marked")
    message: int | None = Field(description="if marked, whole and below 2^53")
    bits: str | None = Field(description="the same bit by bit")
    payload: Json | None = Field(description="what the registry knows of the message")
    key_id: str
    keys_tried: int
    tokens: int
    segments: list[SegmentReading]
    marks: list[TokenMark] | None = Field(None, description="with `return_marks`, in the text's order")


class DecodeResponse(Explained):
    """One reading a text, in order."""

    results: list[TextReading]


class VerifyRequest(BaseModel):
    """One text or several, and the messages they are expected to carry."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = None
    version: str | None = None
    text: str | None = None
    texts: list[str] | None = None
    expected: list[Json] = Field(description='at most 64 messages, such as {"message": 613} or {"label": "..."}')
    key_id: str | None = None


class Check(BaseModel):
    """Whether a text carries one expected message."""

    expected: Json
    verdict: Verdict
    p_value: float
    count: int
    scored_tokens: int
    unique_tokens: int
    power: float
    key_id: str


class TextCheck(BaseModel):
    """One text's answers, in the order of the messages; verdict: that of the best of them."""

    verdict: Verdict
    p_value: float
    level: float
    tokens: int
    keys_tried: int
    checks: list[Check]


class VerifyResponse(Explained):
    """One entry a text, in order."""

    results: list[TextCheck]


GENERATE_EXAMPLE: Json = {
    "model": "smollm2-mark",
    "prompt": "The history of the town begins with",
    "watermark": {"message": 613},
    "max_tokens": 200,
    "temperature": 0.8,
    "seed": 1,
}
DECODE_EXAMPLE: Json = {"model": "smollm2-mark", "text": "The text in question, two hundred words of it or more."}
VERIFY_EXAMPLE: Json = {"model": "smollm2-mark", "text": "The text in question.", "expected": [{"message": 613}]}
