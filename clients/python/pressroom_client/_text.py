"""Text tasks: the native JSON of completions and chats, their answers and their events as typed values.

The same bytes travel as the body of /v1/completions or /v1/chat/completions and as the BYTES input `request` of a
gRPC ModelInfer; streams are HTTP's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from . import _json
from ._errors import UnexpectedAnswer, UsageError
from ._text_types import TextChoice, TextPiece, TextResult, TextUsage, TokenScore
from ._types import Timings

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"

Prompt = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]
Messages = str | Sequence[Mapping[str, Any]]


class TextOptions(TypedDict, total=False):
    """How to generate. What is not given is the server's choice: temperature 1, one answer, no log-probabilities.

    max_tokens       tokens of the answer at most
    temperature      >= 0; 0: always the likeliest token
    top_p, top_k, min_p                     what is left of the distribution before a token is drawn
    repetition_penalty, presence_penalty, frequency_penalty
    logit_bias       token id -> -100 to 100
    seed             same seed, same request: same text
    stop             the text ends before the first of these
    n                answers to each prompt
    response_format  {"type": "json_object"}, or {"type": "json_schema", "json_schema": {"schema": ...}}
    extra            any further field of the route, as the server names it
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[str, float] | Mapping[int, float]
    seed: int
    stop: str | Sequence[str]
    n: int
    response_format: Mapping[str, Any]
    extra: Mapping[str, Any]


class CompletionOptions(TextOptions, total=False):
    """Of `complete` alone: log-probabilities with so many alternatives; the prompt before the answer; a message the
    text shall carry, where the server marks answers ({"message": 613}, see `generate`)."""

    logprobs: int
    echo: bool
    watermark: Mapping[str, Any]


class ChatOptions(TextOptions, total=False):
    """Of `chat` alone: log-probabilities, and with so many alternatives; a message, as in CompletionOptions."""

    logprobs: bool
    top_logprobs: int
    watermark: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TextCall:
    """One text request. `model` None: the server chooses (it serves one language model)."""

    path: str
    model: str | None
    version: str | None
    body: bytes
    streamed: bool

    def read(self, body: bytes, request_id: str) -> TextResult:
        """The result of a whole answer; UnexpectedAnswer if it is none."""
        try:
            answer = _json.decode(body)
            choices = tuple(_choice(raw) for raw in answer["choices"])
            return _result(answer, choices, TextUsage.parse(answer["usage"]), request_id)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unexpected(error) from error


def text_call(
    path: str, asked: Mapping[str, Any], model: str | None, version: str | None, *, streamed: bool
) -> TextCall:
    """A call of one of the two routes; what is None is left to the server. UsageError if JSON cannot carry it."""
    stream = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
    options = {name: value for name, value in asked.items() if name != "extra"} | dict(asked.get("extra") or {})
    named = {"model": model, "version": version, **options, **stream}
    body = _json.encode({name: value for name, value in named.items() if value is not None})
    return TextCall(path=path, model=model, version=version, body=body, streamed=streamed)


def as_messages(messages: Messages) -> list[dict[str, Any]]:
    """A conversation; a string is one message of the user."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if isinstance(messages, Mapping) or not all(isinstance(message, Mapping) for message in messages):
        hint = 'for example [{"role": "user", "content": "..."}], or only a string'
        raise UsageError("messages must be a list of mappings", field="messages", hint=hint)
    return [dict(message) for message in messages]


class Transcript:
    """Gathers a stream's events; what they add up to is a TextResult."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._texts: dict[int, list[TextPiece]] = {}
        self._usage: TextUsage | None = None
        self._last: Mapping[str, Any] = {}

    def read(self, chunk: Mapping[str, Any]) -> list[TextPiece]:
        """The pieces of one event; UnexpectedAnswer if it is none of a text stream."""
        try:
            pieces = [_piece(raw) for raw in chunk["choices"]]
            self._usage = TextUsage.parse(usage) if (usage := chunk.get("usage")) else self._usage
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unexpected(error) from error
        self._last = chunk
        for piece in pieces:
            self._texts.setdefault(piece.index, []).append(piece)
        return [piece for piece in pieces if piece.text or piece.scores or piece.finish_reason]

    def result(self) -> TextResult:
        """Everything so far."""
        choices = tuple(_joined(index, self._texts[index]) for index in sorted(self._texts))
        return _result(self._last, choices, self._usage, self._request_id)


def _result(
    answer: Mapping[str, Any], choices: tuple[TextChoice, ...], usage: TextUsage | None, request_id: str
) -> TextResult:
    said = answer.get("pressroom") or {}
    return TextResult(
        choices=choices,
        model=said.get("model") or answer.get("model"),
        version=said.get("version"),
        digest=said.get("digest") or answer.get("system_fingerprint"),
        usage=usage,
        request_id=said.get("request_id") or request_id,
        timings=Timings.parse(said.get("timings") or {}),
    )


def _choice(raw: Mapping[str, Any]) -> TextChoice:
    text = raw["text"] if "text" in raw else raw["message"]["content"]
    return TextChoice(
        index=raw["index"], text=text or "", finish_reason=raw["finish_reason"], scores=_scores(raw.get("logprobs"))
    )


def _piece(raw: Mapping[str, Any]) -> TextPiece:
    text = raw["text"] if "text" in raw else raw["delta"].get("content")
    return TextPiece(
        index=raw["index"], text=text or "", finish_reason=raw["finish_reason"], scores=_scores(raw.get("logprobs"))
    )


def _joined(index: int, pieces: Sequence[TextPiece]) -> TextChoice:
    reasons = [piece.finish_reason for piece in pieces if piece.finish_reason]
    return TextChoice(
        index=index,
        text="".join(piece.text for piece in pieces),
        finish_reason=reasons[-1] if reasons else None,
        scores=tuple(score for piece in pieces for score in piece.scores),
    )


def _scores(raw: Mapping[str, Any] | None) -> tuple[TokenScore, ...]:
    """Of either route's `logprobs`."""
    if not raw:
        return ()
    if "tokens" in raw:
        tops = [tuple((top or {}).items()) for top in raw["top_logprobs"]]
        return tuple(map(TokenScore, raw["tokens"], raw["token_logprobs"], tops))
    return tuple(
        TokenScore(one["token"], one["logprob"], tuple((t["token"], t["logprob"]) for t in one["top_logprobs"]))
        for one in raw["content"] or ()
    )


def _unexpected(error: Exception) -> UnexpectedAnswer:
    message = f"the answer is not a text's: {type(error).__name__} at {error}"
    return UnexpectedAnswer(message, hint="are client and server of one version?")
