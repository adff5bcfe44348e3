"""Text to token ids and back, whole or token by token, with the `tokenizers` library alone.

A character may be spread over several tokens (UTF-8 bytes in byte-level and byte-fallback vocabularies): the
incremental `Detokenizer` holds text back until it is whole. What it hands out in pieces is, joined, what decoding
the whole answer after its prompt says.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import tokenizers

from models.errors import InputError

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BEFORE = 6  # prompt tokens that decide how the first token of an answer reads (its leading space)


class Detokenizer(Protocol):
    """Turns one sequence's tokens into text as they come."""

    def feed(self, token: int) -> str:
        """Text that is certain now; may be empty."""

    def rest(self) -> str:
        """What was held back; an unfinished character reads U+FFFD. Nothing may be fed afterwards."""


class Tokenizer:
    """One model's vocabulary. Safe to use from several threads."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        library.no_padding()
        library.no_truncation()
        self._library = library

    @classmethod
    def from_file(cls, path: Path) -> Tokenizer:
        """Read `tokenizer.json`."""
        return cls(tokenizers.Tokenizer.from_file(str(path)))

    @property
    def size(self) -> int:
        """Tokens there are, added ones included; the model's vocabulary may be larger."""
        size: int = self._library.get_vocab_size(with_added_tokens=True)
        return size

    def encode(self, text: str) -> list[int]:
        """Token ids. Special tokens written out in the text become those tokens; none are added.

        Raises InputError for text that is not Unicode (lone surrogates).
        """
        ids: list[int] = self._encode(text).ids
        return ids

    def literal(self) -> Tokenizer:
        """The same vocabulary for text that others wrote: special tokens written out in it are plain characters."""
        library = tokenizers.Tokenizer.from_str(self.as_json())
        library.encode_special_tokens = True
        return Tokenizer(library)

    def encode_with_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids as `encode` gives them, and for each where in the text it starts and ends, characters.

        Whether white space before a word belongs to its token differs between vocabularies. Of tokens that share a
        character each spans it whole.
        """
        found = self._encode(text)
        return found.ids, found.offsets

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """Text of the tokens; special tokens are left out unless `special`."""
        text: str = self._library.decode(list(tokens), skip_special_tokens=not special)
        return text

    def token_id(self, text: str) -> int | None:
        """The token that is written so, e.g. "<|im_end|>", or None."""
        token: int | None = self._library.token_to_id(text)
        return token

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for, special tokens as they are written; b"" for an id without a token."""
        written = self._library.id_to_token(token)
        if written is None:
            return b""
        if token in self._added:
            return self._added[token].encode()
        if self._byte_level:
            return _from_byte_level(written)
        if match := _BYTE.fullmatch(written):
            return bytes([int(match[1], 16)])
        return str(written).replace("▁", " ").encode()

    def token_text(self, token: int) -> str:
        """`token_bytes` as text; bytes that are no whole character read U+FFFD."""
        return self.token_bytes(token).decode(errors="replace")

    def detokenizer(self, prompt: Sequence[int]) -> Detokenizer:
        """For an answer that follows the prompt."""
        if self._byte_level:
            return _ByteDetokenizer(self._bytes)
        return _WindowDetokenizer(self, prompt[-_BEFORE:])

    def as_json(self) -> str:
        """`tokenizer.json`, for libraries that read it themselves."""
        text: str = self._library.to_str()
        return text

    def _encode(self, text: str) -> tokenizers.Encoding:
        try:
            return self._library.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            raise InputError("invalid_request", "the text holds half a character (a lone surrogate)") from None

    @cached_property
    def _added(self) -> dict[int, str]:
        return {token: added.content for token, added in self._library.get_added_tokens_decoder().items()}

    @cached_property
    def _byte_level(self) -> bool:
        decoder = json.loads(self.as_json()).get("decoder")
        return isinstance(decoder, dict) and decoder.get("type") == "ByteLevel"

    @cached_property
    def _bytes(self) -> dict[int, bytes]:
        """Bytes of every token of a byte-level vocabulary; special tokens, which are left out of text, have none."""
        table = {token: _from_byte_level(text) for text, token in self._library.get_vocab(True).items()}
        for token, added in self._library.get_added_tokens_decoder().items():
            table[token] = b"" if added.special else _from_byte_level(added.content)
        return table


class _ByteDetokenizer:
    """Byte-level vocabularies: every token is some bytes, and text is all of them as UTF-8."""

    def __init__(self, table: dict[int, bytes]) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        return self._decoder.decode(self._table.get(token, b""))

    def rest(self) -> str:
        return self._decoder.decode(b"", True)


class _WindowDetokenizer:
    """Any vocabulary: what the tokens say after the ones handed out just before, which decide about spaces.

    Bytes that are no UTF-8 may read differently from decoding all at once: what was handed out cannot change.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._context = list(before)
        self._pending: list[int] = []
        self._known = tokenizer.decode(self._context)

    def feed(self, token: int) -> str:
        self._pending.append(token)
        text = self._tokenizer.decode(self._context + self._pending)
        if text.endswith("\ufffd") or len(text) <= len(self._known):
            return ""
        new = text[len(self._known) :]
        self._context, self._pending = self._pending, []
        self._known = self._tokenizer.decode(self._context)
        return new

    def rest(self) -> str:
        return self._tokenizer.decode(self._context + self._pending)[len(self._known) :]


def _byte_characters() -> dict[str, int]:
    """How byte-level vocabularies write bytes: printable Latin-1 as itself, the others as U+0100 and up."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + rank): byte for rank, byte in enumerate(others)}


_BYTES = _byte_characters()


def _from_byte_level(written: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in written)
    except KeyError:  # an added token, written as text
        return written.encode()
