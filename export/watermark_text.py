"""The text a proxy is counted from: paragraphs as token ids, written as people and language models write.

WikiText's own token spacing (` @-@ `, blanks before punctuation) is undone where a text has it: a proxy of such text
would expect blanks that no model writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from export.artifact import sha256_file
from export.errors import OptionError

LEAST_TOKENS = 1000
_SPACED = re.compile(r" @([-,.])@ ")
_BEFORE, _AFTER = re.compile(r" ([,.;:!?)\]%]|'\w)"), re.compile(r"([(\[$]) ")
_QUOTED = re.compile(r'" ([^"]*?) "')


@dataclass(frozen=True)
class ProxyText:
    """A file, and its paragraphs as token ids."""

    name: str
    sha256: str
    paragraphs: list[list[int]]

    @property
    def tokens(self) -> int:
        """Of all paragraphs."""
        return sum(map(len, self.paragraphs))


def read_proxy_text(path: Path, tokenizer: Tokenizer) -> ProxyText:
    """Read a UTF-8 file, one paragraph a line. Raises OptionError where it is no text, or too little."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise OptionError(f"--proxy-text {path.name} is no readable UTF-8 file", "name a text file") from None
    text = as_written(text) if _SPACED.search(text) else text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = ProxyText(
        path.name, sha256_file(path), [tokenizer.encode(one, add_special_tokens=False).ids for one in lines]
    )
    if found.tokens < LEAST_TOKENS:
        told = f"--proxy-text {path.name} has {found.tokens} tokens"
        raise OptionError(told, f"give at least {LEAST_TOKENS}, of the kind of text that will be marked")
    return found


def as_written(text: str) -> str:
    """WikiText without its token spacing."""
    text = _SPACED.sub(r"\1", text)
    text = _AFTER.sub(r"\1", _BEFORE.sub(r"\1", text))
    return _QUOTED.sub(r'"\1"', text)
