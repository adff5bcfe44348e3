"""Text from tokens as they come: whole characters only, and stop strings wherever the borders fall."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers

from models.errors import InputError
from services.generation.stopping import StopFinder
from services.generation.tokenizer import Tokenizer


def pieces(tokenizer: Tokenizer, prompt: list[int], tokens: list[int]) -> list[str]:
    detokenizer = tokenizer.detokenizer(prompt)
    return [*(detokenizer.feed(token) for token in tokens), detokenizer.rest()]


@pytest.fixture(scope="module")
def sentences() -> Tokenizer:
    """A vocabulary as sentencepiece makes them for Llama: ▁ for blanks, <0x..> for bytes."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", "▁the", "▁cat", "s", "a", "t", "h", "e", "c", "é", "▁a"]
    model = models.BPE(
        vocab={word: rank for rank, word in enumerate(words)}, merges=[], unk_token="<unk>", byte_fallback=True
    )
    library = Library(model)
    library.add_special_tokens(["<s>", "</s>"])
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return Tokenizer(library)


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=30))
def test_byte_level_pieces_join_to_the_text_and_never_hold_half_a_character(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode(text)
    parts = pieces(tokenizer, [], tokens)
    assert "".join(parts) == tokenizer.decode(tokens)
    if "\ufffd" not in text:
        assert not any("\ufffd" in part for part in parts)


@settings(max_examples=150, deadline=None)
@given(tokens=st.lists(st.integers(2, 319), max_size=40))
def test_any_byte_level_tokens_read_as_if_decoded_at_once(tokenizer: Tokenizer, tokens: list[int]) -> None:
    assert "".join(pieces(tokenizer, [], tokens)) == tokenizer.decode(tokens)


def test_an_emoji_of_four_byte_tokens_comes_with_its_last_byte(sentences: Tokenizer, tokenizer: Tokenizer) -> None:
    for vocabulary in (sentences, tokenizer):
        tokens = [vocabulary.token_id(f"<0x{byte:02X}>") for byte in "🙂".encode()]
        if None in tokens:
            tokens = vocabulary.encode("🙂")
        parts = pieces(vocabulary, [], [token for token in tokens if token is not None])
        assert "".join(parts) == "🙂"
        assert [part for part in parts if part] == ["🙂"]


def test_an_unfinished_character_reads_as_a_replacement_at_the_end(sentences: Tokenizer) -> None:
    tokens = [sentences.token_id(f"<0x{byte:02X}>") for byte in "🙂".encode()[:2]]
    parts = pieces(sentences, [], [token for token in tokens if token is not None])
    assert parts[:-1] == ["", ""]
    assert set(parts[-1]) == {"\ufffd"}


def test_an_answer_keeps_the_blank_between_it_and_its_prompt(sentences: Tokenizer) -> None:
    the, cat, s = (sentences.token_id(word) for word in ("▁the", "▁cat", "s"))
    assert the is not None
    assert cat is not None
    assert s is not None
    assert pieces(sentences, [the], [cat, s, the]) == [" cat", "s", " the", ""]
    assert "".join(pieces(sentences, [], [cat, s])) == "cats"


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="the cats éa🙂日", min_size=1, max_size=20))
def test_sentencepiece_pieces_join_to_what_follows_the_prompt(sentences: Tokenizer, text: str) -> None:
    prompt, tokens = sentences.encode("the"), sentences.encode(text)
    whole = sentences.decode([*prompt, *tokens])[len(sentences.decode(prompt)) :]
    assert "".join(pieces(sentences, prompt, tokens)) == whole


def test_tokens_as_bytes(sentences: Tokenizer, tokenizer: Tokenizer) -> None:
    assert b"".join(tokenizer.token_bytes(token) for token in tokenizer.encode("Zoë 日本")) == "Zoë 日本".encode()
    byte = sentences.token_id("<0xF0>")
    cat = sentences.token_id("▁cat")
    assert byte is not None
    assert cat is not None
    assert sentences.token_bytes(byte) == b"\xf0"
    assert sentences.token_text(byte) == "\ufffd"
    assert sentences.token_text(cat) == " cat"
    assert tokenizer.token_bytes(100_000) == b""
    assert tokenizer.token_text(0) == "<s>"


def test_special_tokens_are_read_but_not_written(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("a<s>b")
    assert 0 in tokens
    assert tokenizer.decode(tokens) == "ab"
    assert tokenizer.decode(tokens, special=True) == "a<s>b"
    assert "".join(pieces(tokenizer, [], tokens)) == "ab"


def test_half_a_surrogate_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError):
        tokenizer.encode("a\ud83d")


def test_a_tokenizer_is_read_from_its_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer.as_json())
    assert Tokenizer.from_file(tmp_path / "tokenizer.json").encode("hello") == tokenizer.encode("hello")


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(alphabet="abc", max_size=30),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=10),
)
def test_text_ends_before_the_first_stop_string_wherever_it_is_cut(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    ends = [text.find(stop) for stop in stops if stop in text]
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    finder, out = StopFinder(stops), ""
    first_seen = min((text.find(stop) + len(stop) for stop in stops if stop in text), default=len(text) + 1)
    for start, end in pairwise(borders):
        part = finder.feed(text[start:end])
        out += part
        if finder.found:
            assert end >= first_seen
            break
        assert end < first_seen
    else:
        out += finder.rest()
    if not ends:
        assert out == text
        return
    seen_at = next(end for end in borders if end >= first_seen)
    assert out == text[: min(at for stop in stops if (at := text[:seen_at].find(stop)) >= 0)]


def test_only_what_may_become_a_stop_string_is_held_back() -> None:
    finder = StopFinder(["<end>"])
    assert finder.feed("yes <e") == "yes "
    assert finder.feed("gg") == "<egg"
    assert finder.feed("<en") == ""
    assert finder.feed("d>more") == ""
    assert finder.found
