"""The completions route: prompts in, their continuations out, whole or as events; optionally with the prompt's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.generation.request import TokenScore
from services.generation.tokenizer import Tokenizer
from services.openai.fields import Fields
from services.openai.job import Choice
from services.openai.options import MOST_ALTERNATIVES, Options, Reader
from services.openai.prompts import Prompt, read_prompts
from services.openai.scores import completion_scores

Json = dict[str, Any]

DEFAULT_TOKENS = 16  # of an answer that names no length, as in OpenAI's API


class Completions:
    """What is particular to the route."""

    prefix = "cmpl"
    name, chunk_name = "text_completion", "text_completion"
    prompt_field = "prompt"
    default_tokens: int | None = DEFAULT_TOKENS

    def __init__(self, tokenizer: Tokenizer, options: Options) -> None:
        self._tokenizer = tokenizer
        self._options = options

    @classmethod
    def read(cls, request: Json, reader: Reader) -> tuple[list[Prompt], Options]:
        """Prompts and options of a request. Raises InputError naming the field."""
        fields = Fields(request)
        prompts = read_prompts(fields.raw("prompt"), reader.spec, reader.tokenizer)
        options = reader.options(
            fields,
            max_tokens=fields.whole("max_tokens", 0, 2**31 - 1),
            logprobs=fields.whole("logprobs", 0, MOST_ALTERNATIVES),
            echo=fields.flag("echo"),
        )
        return prompts, options

    def choice(self, choice: Choice) -> Json:
        """A finished choice."""
        echo = choice.prompt.text if self._options.echo else ""
        return {
            "index": choice.index,
            "text": echo + choice.text,
            "logprobs": self._scores(choice, choice.scores, 0, first=True),
            "finish_reason": choice.finish_reason,
            **self._options.token_ids(choice.tokens),
        }

    def opening(self, choice: Choice) -> list[Json]:
        """What a choice's events begin with: the echoed prompt."""
        if not self._options.echo:
            return []
        choice.sent = len(choice.prompt.text)
        scores = self._scores(choice, [], 0, first=True)
        return [{"index": choice.index, "text": choice.prompt.text, "logprobs": scores, "finish_reason": None}]

    def delta(self, choice: Choice, text: str) -> Json:
        """What came since the last event."""
        written = self._scores(choice, choice.scores, choice.sent, first=False)
        choice.sent += len(text)
        ids = self._options.token_ids(choice.tokens)
        return {"index": choice.index, "text": text, "logprobs": written, "finish_reason": choice.finish_reason, **ids}

    def _scores(self, choice: Choice, scores: Sequence[TokenScore], offset: int, *, first: bool) -> Json | None:
        if self._options.logprobs is None:
            return None
        if not (first and self._options.echo):
            return completion_scores(self._tokenizer, scores, offset)
        before = choice.generation.prompt_scores
        return completion_scores(self._tokenizer, [*before, *scores], offset, unscored=choice.prompt.tokens[0])
