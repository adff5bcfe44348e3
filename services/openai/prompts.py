"""Prompts of the completions route: text or token ids, one or a list, as token ids; and what fits the context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.errors import InputError
from models.llm.spec import LanguageModelSpec
from services.core.errors import ApiError
from services.generation.tokenizer import Tokenizer
from services.openai.fields import refuse

MOST_PROMPTS = 256


@dataclass(frozen=True)
class Prompt:
    """What is to be continued: token ids, and the text they came from or stand for."""

    tokens: tuple[int, ...]
    text: str


def read_prompts(sent: Any, spec: LanguageModelSpec, tokenizer: Tokenizer) -> list[Prompt]:
    """The field `prompt`: a string, token ids, or a list of either. Raises InputError naming the place."""
    if isinstance(sent, str):
        return [_from_text(sent, "prompt", spec, tokenizer)]
    if not isinstance(sent, list):
        raise refuse("prompt", sent, "a string, a list of token ids, or a list of either")
    if not sent:
        raise _empty("prompt")
    if type(sent[0]) is int:
        return [_from_tokens(sent, "prompt", spec, tokenizer)]
    if len(sent) > MOST_PROMPTS:
        raise refuse("prompt", sent, f"at most {MOST_PROMPTS} prompts", "split the request")
    return [_one_of_many(entry, f"prompt[{i}]", spec, tokenizer) for i, entry in enumerate(sent)]


def _one_of_many(entry: Any, place: str, spec: LanguageModelSpec, tokenizer: Tokenizer) -> Prompt:
    if isinstance(entry, str):
        return _from_text(entry, place, spec, tokenizer)
    if isinstance(entry, list):
        return _from_tokens(entry, place, spec, tokenizer)
    raise refuse(place, entry, "a string or a list of token ids")


def _from_text(text: str, place: str, spec: LanguageModelSpec, tokenizer: Tokenizer) -> Prompt:
    if not text:
        raise _empty(place)
    try:
        tokens = tokenizer.encode(text)
    except InputError as fault:
        raise InputError(fault.code, f"{place}: {fault.message}", field=place, hint=fault.hint) from None
    if spec.add_bos and spec.bos_token is not None:
        tokens = [spec.bos_token, *tokens]
    return Prompt(tuple(tokens), text)


def _from_tokens(tokens: list[Any], place: str, spec: LanguageModelSpec, tokenizer: Tokenizer) -> Prompt:
    if not tokens:
        raise _empty(place)
    for i, token in enumerate(tokens):
        if type(token) is not int or not 0 <= token < spec.vocabulary:
            raise refuse(f"{place}[{i}]", token, f"a token id from 0 to {spec.vocabulary - 1}")
    return Prompt(tuple(tokens), tokenizer.decode(tokens, special=True))


def _empty(place: str) -> InputError:
    return InputError("empty_prompt", f"{place} is empty", field=place, hint="send at least one character or token")


def answer_tokens(prompt: Prompt, wanted: int | None, default: int | None, context: int, field: str) -> int:
    """Tokens the answer may have: what was asked for, else the default or what the context leaves.

    default  None: all the context leaves
    Raises ApiError (context_length_exceeded) with the sizes.
    """
    length = len(prompt.tokens)
    left = context - length
    if left < (1 if wanted is None else 0):
        raise _too_long(f"your prompt has {length} tokens", context, field, "shorten the prompt")
    if wanted is None:
        return left if default is None else min(default, left)
    if wanted > left:
        came = f"you requested {length + wanted} tokens ({length} in the prompt, {wanted} for the answer)"
        hint = f"ask for at most {left} tokens, or shorten the prompt"
        raise _too_long(came, context, "max_tokens" if left > 0 else field, hint)
    return wanted


def _too_long(came: str, context: int, field: str, hint: str) -> ApiError:
    message = f"this model's maximum context length is {context} tokens, however {came}"
    return ApiError("context_length_exceeded", message, field=field, hint=hint)
