"""The chat route: messages in, the assistant's next message out, whole or as events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from models.errors import InputError
from services.generation.request import TokenScore
from services.generation.tokenizer import Tokenizer
from services.openai.fields import Fields, refuse
from services.openai.job import Choice
from services.openai.messages import read_messages
from services.openai.options import MOST_ALTERNATIVES, Options, Reader
from services.openai.prompts import Prompt
from services.openai.scores import chat_scores

Json = dict[str, Any]


class Chat:
    """What is particular to the route."""

    prefix = "chatcmpl"
    name, chunk_name = "chat.completion", "chat.completion.chunk"
    prompt_field = "messages"
    default_tokens: int | None = None  # the context's end

    def __init__(self, tokenizer: Tokenizer, options: Options) -> None:
        self._tokenizer = tokenizer
        self._options = options

    @classmethod
    def read(cls, request: Json, reader: Reader) -> tuple[list[Prompt], Options]:
        """The one prompt and the options of a request. Raises InputError naming the field."""
        if reader.template is None:
            raise InputError(
                "not_supported",
                "this model has no chat template",
                field="model",
                hint="send a prompt to /v1/completions, or name a model that was trained for chat",
            )
        fields = Fields(request)
        text = reader.template.render(read_messages(fields.raw("messages")))
        tokens = tuple(reader.tokenizer.encode(text))
        options = reader.options(fields, max_tokens=_max_tokens(fields), logprobs=_logprobs(fields))
        return [Prompt(tokens, text)], options

    def choice(self, choice: Choice) -> Json:
        """A finished choice."""
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": self._scores(choice.scores),
            "finish_reason": choice.finish_reason,
            **self._options.token_ids(choice.tokens),
        }

    def opening(self, choice: Choice) -> list[Json]:
        """What a choice's events begin with: who speaks."""
        delta = {"role": "assistant", "content": ""}
        return [{"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}]

    def delta(self, choice: Choice, text: str) -> Json:
        """What came since the last event."""
        written = self._scores(choice.scores)
        delta = {"content": text} if text else {}
        ids = self._options.token_ids(choice.tokens)
        return {
            "index": choice.index,
            "delta": delta,
            "logprobs": written,
            "finish_reason": choice.finish_reason,
            **ids,
        }

    def _scores(self, scores: Sequence[TokenScore]) -> Json | None:
        return None if self._options.logprobs is None else chat_scores(self._tokenizer, scores)


def _max_tokens(fields: Fields) -> int | None:
    older, newer = (fields.whole(name, 1, 2**31 - 1) for name in ("max_tokens", "max_completion_tokens"))
    if older is not None and newer is not None and older != newer:
        raise refuse("max_tokens", older, f"the same as max_completion_tokens, which is {newer}", "send one of them")
    return older if newer is None else newer


def _logprobs(fields: Fields) -> int | None:
    wanted = fields.flag("logprobs")
    top = fields.whole("top_logprobs", 0, MOST_ALTERNATIVES)
    if top is not None and not wanted:
        raise refuse("top_logprobs", top, "nothing, because logprobs is not true", "send logprobs: true with it")
    return (top or 0) if wanted else None
