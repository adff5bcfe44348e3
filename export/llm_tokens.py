"""The tokenizer's habits -> tokenizer.json, chat_template.jinja and what the spec says about special tokens.

`tokenizer.json` is written from the tokenizer as transformers runs it, so that the `tokenizers` library alone gives
the same ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from export.errors import CheckpointFileError, ParityError

if TYPE_CHECKING:  # it needs torch, which whoever only reads a pressed tokenizer does without
    from export.llm_folder import ModelFolder

TOKENIZER, CHAT_TEMPLATE, GENERATION = "tokenizer.json", "chat_template.jinja", "generation_config.json"


@dataclass(frozen=True)
class SpecialTokens:
    """Which tokens begin and end a text. Texts are "" where the tokenizer has no such token."""

    bos: int | None
    ends: tuple[int, ...]
    add_bos: bool
    bos_text: str
    eos_text: str


def write_tokenizer(tokenizer: Any, vocabulary: int, out: Path) -> list[str]:
    """Write TOKENIZER, and CHAT_TEMPLATE where the model has one; returns the added tokens that were left out.

    vocabulary  V: an added token from V on, a pad token for the most part, would ask the network for a row it has not
    Raises CheckpointFileError for a slow tokenizer, and for one whose own vocabulary exceeds V.
    """
    if not getattr(tokenizer, "is_fast", False):
        hint = "save it with a tokenizer.json (transformers' fast tokenizer)"
        raise CheckpointFileError(f"{type(tokenizer).__name__} exists in Python only", hint)
    backend = tokenizer.backend_tokenizer
    if (known := backend.get_vocab_size(with_added_tokens=False)) > vocabulary:
        message = f"the tokenizer knows {known} tokens, the network {vocabulary}"
        raise CheckpointFileError(message, "take both from one model")
    backend.no_truncation()
    backend.no_padding()
    document = json.loads(backend.to_str())
    beyond = [token["content"] for token in document["added_tokens"] if token["id"] >= vocabulary]
    document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < vocabulary]
    (out / TOKENIZER).write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if template:
        (out / CHAT_TEMPLATE).write_text(template, encoding="utf-8")
    return beyond


def check_tokenizer(tokenizer: Any, out: Path, texts: Sequence[str]) -> None:
    """Raises ParityError where TOKENIZER, read by the `tokenizers` library alone, takes a text apart otherwise."""
    written = Tokenizer.from_file(str(out / TOKENIZER))
    for text in texts:
        expected = tokenizer(text, add_special_tokens=False)["input_ids"]
        if written.encode(text, add_special_tokens=False).ids != expected:
            hint = f"save the tokenizer with transformers, so that {TOKENIZER} says all it does"
            raise ParityError(f"{TOKENIZER} gives other tokens than the model's tokenizer for {text[:40]!r}", hint)


def special_tokens(folder: ModelFolder, tokenizer: Any) -> SpecialTokens:
    """From the generation settings, else config.json, else the tokenizer."""
    bos = tokenizer.bos_token_id
    return SpecialTokens(
        bos=bos,
        ends=_ends(folder, tokenizer),
        add_bos=bos is not None and tokenizer("a")["input_ids"][:1] == [bos],
        bos_text=tokenizer.bos_token or "",
        eos_text=tokenizer.eos_token or "",
    )


def _ends(folder: ModelFolder, tokenizer: Any) -> tuple[int, ...]:
    stated = [_generation(folder).get("eos_token_id"), folder.config.get("eos_token_id"), tokenizer.eos_token_id]
    first = next((one for one in stated if one is not None), ())
    return tuple(first) if isinstance(first, list | tuple) else (first,)


def _generation(folder: ModelFolder) -> dict[str, Any]:
    path = folder.path / GENERATION
    if not path.is_file():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise CheckpointFileError(f"{GENERATION} is not JSON ({error})", "copy it again, or remove it") from error
    return found
