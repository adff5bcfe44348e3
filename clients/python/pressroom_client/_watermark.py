"""Watermark calls of both clients: the native JSON of three routes, and their answers as typed values.

The same bytes travel as the body of /v1/watermark/... and as the BYTES input `request` of a gRPC ModelInfer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import _json
from ._core import target
from ._errors import UnexpectedAnswer, UsageError
from ._text import Messages, as_messages
from ._types import Timings
from ._watermark_types import (
    MarkedText,
    WatermarkReading,
    WatermarkReadings,
    WatermarkVerification,
    WatermarkVerifications,
)

T = TypeVar("T")
R = TypeVar("R")
Message = int | str | Mapping[str, Any]
Texts = str | Sequence[str]
Version = str | int | None
_ROUTE = "/v1/watermark/"


@dataclass(frozen=True, kw_only=True)
class WatermarkCall(Generic[T]):
    """One request. `model` None: the server chooses (it serves one scheme)."""

    path: str
    model: str | None
    version: str | None
    body: bytes
    parse: Callable[[Mapping[str, Any], str], T]

    def read(self, body: bytes, request_id: str) -> T:
        """The result of a native JSON answer; UnexpectedAnswer if it is none."""
        try:
            answer = _json.decode(body)
            return self.parse(answer, answer.get("request_id") or request_id)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the answer is none of a watermark: {type(error).__name__} at {error}"
            raise UnexpectedAnswer(message, hint="are client and server of one version?") from error


def generate_call(
    prompt: str | Sequence[int] | None,
    messages: Messages | None,
    watermark: Message | None,
    model: str | None,
    version: Version,
    options: Mapping[str, Any],
) -> WatermarkCall[MarkedText]:
    """UsageError if it cannot be sent."""
    if (prompt is None) == (messages is None):
        raise UsageError("give a prompt, or messages of a chat", field="prompt")
    asked = {name: value for name, value in options.items() if name != "extra"} | dict(options.get("extra") or {})
    asked["prompt"] = prompt
    asked["messages"] = None if messages is None else as_messages(messages)
    asked["watermark"] = None if watermark is None else as_payload(watermark)
    return _call("generate", asked, model, version, _marked)


def decode_call(
    texts: Texts, model: str | None, version: Version, options: Mapping[str, Any]
) -> WatermarkCall[WatermarkReadings]:
    """UsageError if it cannot be sent."""
    return _call("decode", {**_texts(texts), **options}, model, version, _readings)


def verify_call(
    texts: Texts, expected: Message | Iterable[Message], key_id: str | None, model: str | None, version: Version
) -> WatermarkCall[WatermarkVerifications]:
    """UsageError if it cannot be sent."""
    several = [expected] if isinstance(expected, int | str | Mapping) else list(expected)
    asked = {**_texts(texts), "expected": [as_payload(one) for one in several], "key_id": key_id}
    return _call("verify", asked, model, version, _verifications)


def as_payload(message: Message) -> dict[str, Any]:
    """A message as the routes write it: a number, a label, or the route's own object."""
    if isinstance(message, Mapping):
        return dict(message)
    if isinstance(message, str):
        return {"label": message}
    if isinstance(message, bool) or not isinstance(message, int):
        hint = 'a number, a label, or an object such as {"bits": "0110"}'
        raise UsageError(f"got {type(message).__name__} for a watermark's message", field="watermark", hint=hint)
    return {"message": message}


def _call(
    task: str,
    asked: Mapping[str, Any],
    model: str | None,
    version: Version,
    parse: Callable[[Mapping[str, Any], str], R],
) -> WatermarkCall[R]:
    name, chosen = model, None if version is None else str(version)
    if model is not None:
        wanted = target(model, version)
        name, chosen = wanted.name, wanted.version
    sent = {"model": name, "version": chosen, **asked}
    body = _json.encode({field: value for field, value in sent.items() if value is not None})
    return WatermarkCall(path=_ROUTE + task, model=name, version=chosen, body=body, parse=parse)


def _texts(texts: Texts) -> dict[str, Any]:
    if isinstance(texts, str):
        return {"text": texts}
    if isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts):
        raise UsageError("texts must be strings", field="texts", hint="one string, or a list of them")
    return {"texts": list(texts)}


def _explained(answer: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    known = {name: answer[name] for name in ("model", "version", "digest")}
    return {**known, "request_id": request_id, "timings": Timings.parse(answer.get("timings") or {})}


def _marked(answer: Mapping[str, Any], request_id: str) -> MarkedText:
    counted = ("text", "finish_reason", "tokens", "prompt_tokens", "segments", "segments_embedded", "fully_embedded")
    said = {name: answer[name] for name in (*counted, "key_id", "delta")}
    return MarkedText(**said, generator=dict(answer["generator"]), **_explained(answer, request_id))


def _readings(answer: Mapping[str, Any], request_id: str) -> WatermarkReadings:
    found = tuple(WatermarkReading.parse(one) for one in answer["results"])
    return WatermarkReadings(readings=found, **_explained(answer, request_id))


def _verifications(answer: Mapping[str, Any], request_id: str) -> WatermarkVerifications:
    found = tuple(WatermarkVerification.parse(one) for one in answer["results"])
    return WatermarkVerifications(verifications=found, **_explained(answer, request_id))
