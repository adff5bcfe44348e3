"""CLIP's byte-pair tokenizer: text -> ids between a start and an end token, zeros behind.

The merges are OpenAI CLIP's (MIT licence), in `bpe_simple_vocab_16e6.txt.gz` beside this file. Text is repaired (ftfy),
HTML-unescaped twice, its white space collapsed, and lower-cased, as the official tokenizer does.
"""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

import ftfy
import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import Sequence as Steps

START, END = "<start_of_text>", "<end_of_text>"
VOCABULARY = 49408
_MERGES = VOCABULARY - 2 * 256 - 2
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_END_OF_WORD = "</w>"


class ClipTokenizer:
    """Texts -> ids int64 [n, context_length]. Too long a text is cut, its last id becomes the end token."""

    def __init__(self) -> None:
        self._tokenizer = _load()
        self.start, self.end = VOCABULARY - 2, VOCABULARY - 1

    def __call__(self, texts: Sequence[str], context_length: int = 77) -> npt.NDArray[np.int64]:
        rows = np.zeros((len(texts), context_length), dtype=np.int64)
        for row, text in zip(rows, texts, strict=True):
            ids = self.encode(text)[:context_length]
            row[: len(ids)] = ids
            if len(ids) == context_length:
                row[-1] = self.end
        return rows

    def encode(self, text: str) -> list[int]:
        """Ids of any length, start and end token included."""
        found: list[int] = self._tokenizer.encode(clean(text), add_special_tokens=False).ids
        return [self.start, *found, self.end]


def clean(text: str) -> str:
    """Repaired, unescaped, white space collapsed, lower case."""
    plain = html.unescape(html.unescape(ftfy.fix_text(text)))
    return re.sub(r"\s+", " ", plain).strip().lower()


@lru_cache(maxsize=1)
def _load() -> Tokenizer:
    lines = gzip.decompress(files(__package__).joinpath("bpe_simple_vocab_16e6.txt.gz").read_bytes()).decode()
    merges = [(first, second) for first, second in map(str.split, lines.split("\n")[1 : _MERGES + 1])]
    letters = _byte_letters()
    words = [*letters, *(f"{one}{_END_OF_WORD}" for one in letters), *map("".join, merges), START, END]
    tokenizer = Tokenizer(
        BPE(
            vocab={word: i for i, word in enumerate(words)},
            merges=merges,
            end_of_word_suffix=_END_OF_WORD,
            continuing_subword_prefix="",
            fuse_unk=False,
        )
    )
    tokenizer.pre_tokenizer = Steps(
        [Split(Regex(_WORDS), behavior="removed", invert=True), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.add_special_tokens([AddedToken(START, special=True), AddedToken(END, special=True)])
    return tokenizer


def _byte_letters() -> list[str]:
    """The letter that stands for each byte, in the order of the vocabulary: printable bytes stand for themselves."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return [*map(chr, printable), *(chr(256 + i) for i in range(len(others)))]
