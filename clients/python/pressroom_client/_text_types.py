"""What `complete` and `chat` answer: plain frozen values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ._errors import UsageError
from ._types import Timings


@dataclass(frozen=True)
class TokenScore:
    """A token of an answer (or of an echoed prompt) and its log-probability.

    text     as the server writes it; a token that is no whole character as "bytes:\\\\xe2\\\\x80"
    logprob  natural logarithm; None for a prompt's first token, which nothing precedes
    top      the likeliest tokens in its place with theirs, as many as were asked for
    """

    text: str
    logprob: float | None
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class TextUsage:
    """Tokens of a request: of its prompts, of its answers, and how many of the prompts' the prefix cache had."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> TextUsage:
        """From the wire's `usage`."""
        details = raw.get("prompt_tokens_details") or {}
        return cls(raw["prompt_tokens"], raw["completion_tokens"], details.get("cached_tokens") or 0)


@dataclass(frozen=True, kw_only=True)
class TextChoice:
    """One answer.

    finish_reason  "stop" (the model's end, or a stop string) or "length"
    scores         one a token, if log-probabilities were asked for
    """

    index: int
    text: str
    finish_reason: str | None
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TextPiece:
    """What a stream brought at once: some text of one choice, and why it ended if it did."""

    index: int
    text: str
    finish_reason: str | None = None
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TextResult:
    """The answer to one `complete` or `chat` call. Iterate it or index `choices`; `text` is for the case of one.

    choices                 answers in order: prompt by prompt, `n` of each
    model, version, digest  what answered; digest "sha256:..." names the exact artifact
    usage                   token counts; None for a stream that was left early
    request_id              the id both sides log for this call
    timings                 the server's stages, milliseconds
    """

    choices: tuple[TextChoice, ...]
    model: str | None
    version: str | None
    digest: str | None
    usage: TextUsage | None
    request_id: str
    timings: Timings

    def __iter__(self) -> Iterator[TextChoice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def text(self) -> str:
        """The only answer's text; UsageError if there are several."""
        return self._single().text

    @property
    def finish_reason(self) -> str | None:
        """Why the only answer ended; UsageError if there are several."""
        return self._single().finish_reason

    @property
    def message(self) -> dict[str, str]:
        """The only answer as a message, to go on with the conversation."""
        return {"role": "assistant", "content": self.text}

    def _single(self) -> TextChoice:
        if len(self.choices) != 1:
            raise UsageError(f"the answer has {len(self.choices)} choices", hint="iterate the result")
        return self.choices[0]
