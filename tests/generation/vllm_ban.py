"""A logits processor for the real vLLM: its process imports this module, which registers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from models.errors import InputError
from services.generation.processors import REGISTRY
from services.generation.request import Logits, LogitsProcessor

NAME = "test_ban"


def ban(argument: Any, spec: object, tokenizer: object) -> LogitsProcessor:
    """Argument: a token that must not come again once it, or the prompt's first token, was seen."""
    if not isinstance(argument, int):
        raise InputError("invalid_request", f"{NAME}: expected a token", field=NAME)

    def processor(prompt: Sequence[int], generated: Sequence[int], logits: Logits) -> None:
        logits[argument] = -1e9
        logits[prompt[0]] = -1e9
        if generated:
            logits[generated[-1]] = -1e9  # never the same twice in a row

    return processor


if NAME not in REGISTRY.names:
    REGISTRY.register(NAME, ban)
