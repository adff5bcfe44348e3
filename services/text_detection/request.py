"""A detection request as it came, checked: every refusal names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.dna_gpt.detector import MODES, STATISTICS, DetectorSpec, Mode
from models.errors import InputError
from services.openai.fields import Fields, Json, refuse

MOST_REGENERATIONS = 64
_BOTH = "send either text or texts"


@dataclass(frozen=True)
class SentText:
    """One text of a request. id: the caller's name for it."""

    id: str | None
    text: str


@dataclass(frozen=True)
class DetectRequest:
    """What is asked.

    regenerations  K; the artifact's own unless the request says otherwise
    shows_texts    the regenerations come back as well
    """

    texts: tuple[SentText, ...]
    mode: Mode
    statistic: str
    regenerations: int
    shows_texts: bool


def read_request(request: Json, spec: DetectorSpec, most_texts: int) -> DetectRequest:
    """Raises InputError."""
    fields = Fields(request)
    fields.ignore("model", "version")
    texts = _read_texts(fields, most_texts)
    mode = _choice(fields, "mode", MODES) or MODES[0]
    statistic = _choice(fields, "statistic", STATISTICS[mode]) or spec.statistic(mode)
    regenerations = fields.whole("regenerations", 0, MOST_REGENERATIONS)
    shows_texts = fields.flag("return_regenerations")
    fields.finish()
    count = spec.regenerations if regenerations is None else regenerations
    return DetectRequest(texts, mode, statistic, count, shows_texts)


def _read_texts(fields: Fields, most: int) -> tuple[SentText, ...]:
    one, many = fields.text("text"), fields.raw("texts")
    if (one is None) == (many is None):
        came = "both" if many is not None else "neither"
        raise InputError("invalid_request", f"text, texts: got {came}, expected one of them", field="text", hint=_BOTH)
    if one is not None:
        return (_checked(one, "text", None),)
    if not isinstance(many, list):
        raise refuse("texts", many, "a list of strings or of objects with text and id", _BOTH)
    if not many:
        raise InputError("empty_batch", "the request has no text", field="texts", hint="send at least one")
    if len(many) > most:
        raise InputError(
            "too_many_rows", f"{len(many)} texts came, the limit is {most}", field="texts", hint="split the request"
        )
    return tuple(_read_entry(entry, f"texts[{index}]") for index, entry in enumerate(many))


def _read_entry(entry: Any, place: str) -> SentText:
    if isinstance(entry, str):
        return _checked(entry, place, None)
    if not isinstance(entry, dict):
        raise refuse(place, entry, "a string, or an object with text and id")
    fields = Fields(entry, place)
    text, name = fields.text("text"), fields.text("id")
    fields.finish()
    if text is None:
        raise refuse(f"{place}.text", None, "a string")
    return _checked(text, f"{place}.text", name)


def _checked(text: str, place: str, name: str | None) -> SentText:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            "invalid_request",
            f"{place}: the text holds half a character (a lone surrogate)",
            field=place,
            hint="send whole characters: UTF-16 pairs must not be cut",
        ) from None
    return SentText(name, text)


def _choice(fields: Fields, name: str, known: tuple[Any, ...]) -> Any:
    value = fields.text(name)
    if value is not None and value not in known:
        raise refuse(name, value, f"one of {', '.join(known)}")
    return value
