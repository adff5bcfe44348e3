"""What `generate`, `decode_watermark` and `verify_watermark` answer: plain frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ._errors import UsageError
from ._types import Timings

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class MarkedText:
    """A generated text and how much of its message it carries.

    segments, segments_embedded  parts of the message, and how many of them stand in the text in full
    fully_embedded   all of them do
    generator        name, version and digest of the language model
    """

    text: str
    finish_reason: str
    tokens: int
    prompt_tokens: int
    segments: int
    segments_embedded: int
    fully_embedded: bool
    key_id: str
    delta: float
    generator: Mapping[str, str]
    model: str
    version: str
    digest: str
    request_id: str
    timings: Timings


@dataclass(frozen=True)
class WatermarkCandidate:
    """A message of one segment, and the tokens that were available to it."""

    message: int
    count: int


@dataclass(frozen=True, kw_only=True)
class WatermarkSegment:
    """What one segment's tokens say. message: the likeliest, which means nothing unless the verdict is "marked"."""

    message: int | None
    count: int
    margin: int
    scored_tokens: int
    unique_tokens: int
    p_value: float
    power: float
    verdict: str
    candidates: tuple[WatermarkCandidate, ...]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> WatermarkSegment:
        """From the wire's object."""
        listed = tuple(WatermarkCandidate(one["message"], one["count"]) for one in raw["candidates"])
        return cls(**{**raw, "candidates": listed})


@dataclass(frozen=True, kw_only=True)
class WatermarkTokenMark:
    """What one token says: text[start:end].

    segment, available   of the message, and whether the token fits its likeliest value; None before what is marked
    counted              False: the same pair of neighbours came earlier and has had its vote
    """

    start: int
    end: int
    segment: int | None
    available: bool | None
    counted: bool


@dataclass(frozen=True, kw_only=True)
class WatermarkReading:
    """What one text says. A verdict is evidence, not proof.

    verdict   "marked", "not_marked", "inconclusive" or "too_short"
    p_value   how often unmarked text looks at least so marked, corrected for all messages and keys that were tried
    level     the declared rate at which unmarked texts are called marked
    message, bits   the message, if the text is marked and all of it could be read; bits as characters 0 and 1
    payload   what the server's registry knows of the message
    key_id    the key under which the text says most, of keys_tried
    marks     what every token says, if asked for by return_marks
    """

    verdict: str
    p_value: float
    level: float
    message: int | None
    bits: str | None
    payload: Mapping[str, Any] | None
    key_id: str
    keys_tried: int
    tokens: int
    segments: tuple[WatermarkSegment, ...]
    marks: tuple[WatermarkTokenMark, ...] | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> WatermarkReading:
        """From the wire's object."""
        parts: dict[str, Any] = {"segments": tuple(WatermarkSegment.parse(one) for one in raw["segments"])}
        if raw.get("marks") is not None:
            parts["marks"] = tuple(WatermarkTokenMark(**one) for one in raw["marks"])
        return cls(**{**raw, **parts})


@dataclass(frozen=True, kw_only=True)
class WatermarkCheck:
    """Whether a text carries one expected message, alone among those that were asked about."""

    expected: Mapping[str, Any]
    verdict: str
    p_value: float
    count: int
    scored_tokens: int
    unique_tokens: int
    power: float
    key_id: str


@dataclass(frozen=True, kw_only=True)
class WatermarkVerification:
    """One text's checks, in the order of the messages; verdict and p_value are those of the best of them."""

    verdict: str
    p_value: float
    level: float
    tokens: int
    keys_tried: int
    checks: tuple[WatermarkCheck, ...]

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> WatermarkVerification:
        """From the wire's object."""
        return cls(**{**raw, "checks": tuple(WatermarkCheck(**one) for one in raw["checks"])})


@dataclass(frozen=True, kw_only=True)
class WatermarkReadings:
    """The answer to `decode_watermark`: one reading a text. Iterate it; `reading` is for the case of one."""

    readings: tuple[WatermarkReading, ...]
    model: str
    version: str
    digest: str
    request_id: str
    timings: Timings

    def __iter__(self) -> Iterator[WatermarkReading]:
        return iter(self.readings)

    def __len__(self) -> int:
        return len(self.readings)

    @property
    def reading(self) -> WatermarkReading:
        """The only text's; UsageError if there are several."""
        return _single(self.readings)


@dataclass(frozen=True, kw_only=True)
class WatermarkVerifications:
    """The answer to `verify_watermark`: one verification a text, as in WatermarkReadings."""

    verifications: tuple[WatermarkVerification, ...]
    model: str
    version: str
    digest: str
    request_id: str
    timings: Timings

    def __iter__(self) -> Iterator[WatermarkVerification]:
        return iter(self.verifications)

    def __len__(self) -> int:
        return len(self.verifications)

    @property
    def verification(self) -> WatermarkVerification:
        """The only text's; UsageError if there are several."""
        return _single(self.verifications)


def _single(entries: tuple[T, ...]) -> T:
    if len(entries) != 1:
        raise UsageError(f"the answer is about {len(entries)} texts", hint="iterate the result")
    return entries[0]
