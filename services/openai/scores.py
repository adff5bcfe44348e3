"""Log-probabilities as the two routes write them."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from services.generation.request import TokenScore
from services.generation.tokenizer import Tokenizer

Json = dict[str, Any]
LEAST = -9999.0  # written for what has no chance at all: JSON knows no infinity


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as text; one that is no whole character by its bytes, as OpenAI writes them."""
    raw = tokenizer.token_bytes(token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def chat_scores(tokenizer: Tokenizer, scores: Sequence[TokenScore]) -> Json:
    """`logprobs` of a chat choice."""
    return {"content": [_entry(tokenizer, score) for score in scores], "refusal": None}


def _entry(tokenizer: Tokenizer, score: TokenScore) -> Json:
    top = [_alternative(tokenizer, token, logprob) for token, logprob in score.top]
    return _alternative(tokenizer, score.token, score.logprob) | {"top_logprobs": top}


def _alternative(tokenizer: Tokenizer, token: int, logprob: float) -> Json:
    raw = tokenizer.token_bytes(token)
    return {"token": token_name(tokenizer, token), "logprob": max(LEAST, logprob), "bytes": list(raw)}


def completion_scores(
    tokenizer: Tokenizer, scores: Sequence[TokenScore], offset: int, unscored: int | None = None
) -> Json:
    """`logprobs` of a completion choice.

    offset    where the first token begins in the choice's text, characters
    unscored  a token before the others that nothing precedes, so that it has no probability
    """
    tokens = [*([] if unscored is None else [unscored]), *(score.token for score in scores)]
    names = [token_name(tokenizer, token) for token in tokens]
    nothing: list[None] = [] if unscored is None else [None]
    return {
        "tokens": names,
        "token_logprobs": [*nothing, *(max(LEAST, score.logprob) for score in scores)],
        "top_logprobs": [*nothing, *(_by_name(tokenizer, score) for score in scores)],
        "text_offset": _offsets(tokenizer, tokens, offset),
    }


def _by_name(tokenizer: Tokenizer, score: TokenScore) -> dict[str, float]:
    """The likeliest tokens, and the chosen one if it is none of them."""
    found: dict[str, float] = {}
    for token, logprob in (*score.top, (score.token, score.logprob)):
        found.setdefault(token_name(tokenizer, token), max(LEAST, logprob))
    return found


def _offsets(tokenizer: Tokenizer, tokens: Sequence[int], offset: int) -> list[int]:
    """Where each token begins; a character that is spread over tokens counts for the last of them."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(decoder.decode(tokenizer.token_bytes(token)))
    return offsets
