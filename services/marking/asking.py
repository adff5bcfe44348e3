"""What is asked of a text: requests of the routes decode and verify, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.errors import InputError
from services.marking.payload import Payload, read_bits, read_key_id, read_payload
from services.openai.fields import Fields, refuse

Json = dict[str, Any]
MOST_TEXTS, MOST_CANDIDATES, MOST_EXPECTED, MOST_LISTED = 64, 10_000, 64, 20
REGISTERED = "registered"
LISTED = 3


@dataclass(frozen=True, kw_only=True)
class DecodeAsked:
    """See `services.watermark_schema.DecodeRequest`. bits None: one segment; candidates None: all messages."""

    texts: Sequence[str]
    bits: int | None
    key_id: str | None
    candidates: Sequence[int] | str | None
    top: int
    marks: bool


@dataclass(frozen=True, kw_only=True)
class VerifyAsked:
    """See `services.watermark_schema.VerifyRequest`."""

    texts: Sequence[str]
    expected: Sequence[Payload]
    written: Sequence[Json]
    key_id: str | None


def read_decode(request: Json, message_bits: int) -> DecodeAsked:
    """Raises InputError naming the field. message_bits: of one segment of the scheme."""
    fields = Fields(request)
    fields.ignore("model", "version")
    bits = read_bits(fields)
    asked = DecodeAsked(
        texts=_texts(fields),
        bits=bits,
        key_id=read_key_id(fields),
        candidates=_candidates(fields, message_bits),
        top=fields.whole("top", 1, MOST_LISTED) or LISTED,
        marks=fields.flag("return_marks"),
    )
    if asked.candidates is not None and bits is not None and bits > message_bits:
        expected = f"at most {message_bits}, because candidates are messages of one segment"
        raise refuse("message_bits", bits, expected, "use /v1/watermark/verify for longer messages")
    fields.finish()
    return asked


def read_verify(request: Json) -> VerifyAsked:
    """Raises InputError naming the field."""
    fields = Fields(request)
    fields.ignore("model", "version")
    texts, sent = _texts(fields), fields.raw("expected")
    if not isinstance(sent, list) or not 1 <= len(sent) <= MOST_EXPECTED:
        raise refuse("expected", sent, f"a list of 1 to {MOST_EXPECTED} messages", 'for example [{"message": 613}]')
    expected = [read_payload(entry, f"expected[{i}]") for i, entry in enumerate(sent)]
    for i, payload in enumerate(expected):
        if payload.key_id is not None or payload.delta is not None:
            raise refuse(f"expected[{i}]", sent[i], "a message alone", "key_id belongs beside expected")
    asked = VerifyAsked(texts=texts, expected=expected, written=sent, key_id=read_key_id(fields))
    fields.finish()
    return asked


def _texts(fields: Fields) -> list[str]:
    text, texts = fields.raw("text"), fields.raw("texts")
    if (text is None) == (texts is None):
        raise InputError("invalid_request", "send either text or texts", field="text")
    if text is not None:
        if not isinstance(text, str):
            raise refuse("text", text, "a string")
        return [text]
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_TEXTS:
        raise refuse("texts", texts, f"a list of 1 to {MOST_TEXTS} strings", "split the request")
    for i, one in enumerate(texts):
        if not isinstance(one, str):
            raise refuse(f"texts[{i}]", one, "a string")
    return texts


def _candidates(fields: Fields, message_bits: int) -> list[int] | str | None:
    sent = fields.raw("candidates")
    if sent is None:
        return None
    if sent == REGISTERED:
        return REGISTERED
    if not isinstance(sent, list) or not 1 <= len(sent) <= MOST_CANDIDATES:
        raise refuse("candidates", sent, f"a list of 1 to {MOST_CANDIDATES} messages, or {REGISTERED!r}")
    for i, one in enumerate(sent):
        if type(one) is not int or not 0 <= one < 1 << message_bits:
            raise refuse(f"candidates[{i}]", one, f"a message of one segment, 0 to {(1 << message_bits) - 1}")
    return list(sent)
