"""Words, cuts, overlaps, evidence: small texts with known answers, and naive second implementations."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.dna_gpt.black_box import read_black_box
from models.dna_gpt.cut import cut, limit_words
from models.dna_gpt.evidence import find_runs
from models.dna_gpt.overlap import overlap
from models.dna_gpt.sentences import black_box_scores, split_sentences, white_box_scores
from models.dna_gpt.weighting import DEMO, FORMULA, NOTEBOOK
from models.dna_gpt.words import stem, stems, words

TEXTS = st.text(max_size=60) | st.text(st.sampled_from("aAbİıßK9 .\n'é中🙂\x00"), max_size=60)
STEMS = st.lists(st.sampled_from("abc"), max_size=12)


def official_words(text: str) -> list[str]:
    """As the scoring library the paper uses does it, step by step."""
    spaced = re.sub(r"[^a-z0-9]+", " ", text.lower())
    return [stem(word) for word in re.split(r"\s+", spaced) if re.match(r"^[a-z0-9]+$", word)]


@settings(deadline=None)
@given(TEXTS)
def test_words_are_the_official_ones_and_know_their_place(text: str) -> None:
    found = words(text)
    assert [word.stem for word in found] == stems(text) == official_words(text)
    for word in found:
        assert 0 <= word.start < word.end <= len(text)
    assert all(one.end <= other.start or one.end == other.start + 1 for one, other in pairwise(found))


def test_words_longer_than_three_letters_are_stemmed() -> None:
    assert stems("The CATS ran; conditional relational flies dies 2nd") == [
        "the", "cat", "ran", "condit", "relat", "fli", "die", "2nd",
    ]  # fmt: skip
    assert stems("İstanbul") == ["i", "stanbul"]
    [first, second] = words("İstanbul")
    assert (first.start, first.end, second.start, second.end) == (0, 1, 1, 8)


@pytest.mark.parametrize("text", ["", " ", "\x00", "🙂🙂", "今天天气很好", "Привет", "\n\t", "!!!", "éé"])
def test_texts_without_words_have_none(text: str) -> None:
    assert words(text) == []
    assert read_black_box(text, ["some words here"]).score() is None
    assert read_black_box("some words here", [text]).usable == ()
    assert read_black_box("some words here", [text]).most_matched() is None


@given(TEXTS, st.floats(0, 1), st.sampled_from(["character", "word"]))
def test_a_cut_loses_nothing(text: str, ratio: float, unit: str) -> None:
    parts = cut(text, ratio=ratio, unit=unit)  # type: ignore[arg-type]
    assert parts.prefix + parts.remainder == text
    assert parts.position == len(parts.prefix)
    if unit == "word" and parts.remainder:
        assert not parts.remainder[0].isspace()
        assert len(parts.prefix.split()) == int(ratio * len(text.split()))


def test_cuts_fall_where_they_are_asked_to() -> None:
    assert cut("one two three four").remainder == "three four"
    assert cut("one two three four", unit="character").prefix == "one two t"
    assert cut("one two three four", unit="token", tokens=[0, 3, 7, 13], ratio=0.5).remainder == " three four"
    assert cut("one", ratio=1.0).remainder == ""
    assert cut("", unit="token").remainder == ""


def test_limits_keep_short_texts_as_they_are() -> None:
    assert limit_words("a  b\nc", 3) == "a  b\nc"
    assert limit_words("a  b\nc", 2) == "a b"


@given(STEMS, STEMS.filter(bool))
def test_overlap_is_what_counting_by_hand_gives(remainder: list[str], regeneration: list[str]) -> None:
    found = overlap(remainder, regeneration, 5)
    for size in range(1, 6):
        left = [tuple(regeneration[i : i + size]) for i in range(len(regeneration) - size + 1)]
        grams = [tuple(remainder[i : i + size]) for i in range(len(remainder) - size + 1)]
        shared = 0
        for gram in grams:
            if gram in left:
                left.remove(gram)
                shared += 1
        assert found.shared[size - 1] == shared
        assert found.ratio[size - 1] == pytest.approx(shared / len(grams) / len(regeneration) if grams else 0.0)


def test_the_three_weightings_of_a_text_that_comes_back_whole() -> None:
    """Five words in both: ratio 1/5 for n = 1 .. 5."""
    one = overlap(list("abcde"), list("abcde"), 25)
    wlnw = lambda w: w * math.log(w)  # noqa: E731
    demo = [3 * n - 2 for n in range(2, 6)]
    notebook = [2 * n - 1 for n in range(3, 6)]
    assert DEMO.score(one) == pytest.approx(sum(map(wlnw, demo)) / 5 / sum(demo))
    assert NOTEBOOK.score(one) == pytest.approx(sum(map(wlnw, notebook)) / 5 / sum(notebook))
    assert FORMULA.score(one) == pytest.approx((wlnw(4) + wlnw(5)) / 5)


def test_nothing_shared_scores_nothing() -> None:
    one = overlap(list("abc"), list("xyz"), 25)
    assert [weighting.score(one) for weighting in (DEMO, NOTEBOOK, FORMULA)] == [0, 0, 0]


def test_the_longest_shared_run_is_shown() -> None:
    reading = read_black_box("one two three four five six", ["two three", "", "three four five", "one two three"])
    assert reading.usable == (0, 2, 3)
    assert reading.most_matched() == 2
    assert reading.most_matched(2) == 0
    assert reading.mean_ratio().shape == (25,)


def slow_runs(ours: list[str], theirs: list[str]) -> int:
    """Length of the longest run both have."""
    return max(
        (
            size
            for size in range(1, len(ours) + 1)
            for start in range(len(ours) - size + 1)
            if any(theirs[at : at + size] == ours[start : start + size] for at in range(len(theirs)))
        ),
        default=0,
    )


@given(STEMS, STEMS)
def test_evidence_shows_the_longest_run_in_both_places(ours: list[str], theirs: list[str]) -> None:
    text, other = " ".join(ours), " ".join(theirs)
    runs = find_runs(text, [other], fewest=1)
    assert max((run.words for run in runs), default=0) == slow_runs(ours, theirs)
    for run in runs:
        assert stems(text[run.start : run.end]) == stems(other[run.other_start : run.other_end])
        assert len(stems(text[run.start : run.end])) == run.words
    assert all(one.end <= following.start for one, following in pairwise(runs))


def test_evidence_lies_behind_the_cut_and_survives_inflection() -> None:
    text = "We walked home. It reduces stress and anxiety, and improves moods!"
    [run] = find_runs(text, ["nothing", "Walks reduce stress AND anxiety; and improve mood"], position=15)
    assert text[run.start : run.end] == "reduces stress and anxiety, and improves moods"
    assert run.regeneration == 1
    assert run.words == 7


def test_sentences_end_where_a_reader_would_say() -> None:
    text = 'One. Two is 3.5 long!  "Three?" said he.\nfour\n\n五。六！'
    assert [text[s.start : s.end] for s in split_sentences(text)] == [
        "One.", "Two is 3.5 long!", '"Three?"', "said he.", "four", "五。", "六！",
    ]  # fmt: skip
    assert split_sentences(" \n ") == []


def test_sentence_scores_say_where_the_suspicion_lies() -> None:
    text = "Ab cd. Ef gh."
    first, second = white_box_scores(text, [0, 2, 6, 9], [-1.0, -3.0, -5.0, -7.0], baseline=-2.0)
    assert (first.score, second.score) == (0.0, -4.0)
    runs = find_runs(text, ["x ef gh"], fewest=2)
    assert [one.score for one in black_box_scores(text, runs)] == [0.0, 1.0]
    assert [one.score for one in black_box_scores(text, runs, position=7)] == [None, 1.0]


@settings(deadline=None, max_examples=50)
@given(TEXTS)
def test_sentences_never_overlap_and_hold_all_that_is_not_white_space(text: str) -> None:
    found = split_sentences(text)
    assert all(one.end <= following.start for one, following in pairwise(found))
    assert "".join("".join(text[s.start : s.end].split()) for s in found) == "".join(text.split())
    assert np.all([s.end > s.start for s in found])
