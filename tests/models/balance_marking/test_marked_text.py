"""Marking and reading: the message comes back, other texts stay silent, and little text gives no verdict."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import VOCABULARY, Language, balanced, bigram

from models.balance_marking.config import MarkingConfig, MarkingError
from models.balance_marking.correction import SegmentCode
from models.balance_marking.counting import count_all
from models.balance_marking.decoder import Decoder, first_of_each_pair, split_positions
from models.balance_marking.encoder import Marker, _likeliest
from models.balance_marking.segments import check_length, join_message, segments_for, split_message
from models.balance_marking.votes import TableVotes

LANGUAGE = Language(3)
PROXY = bigram(LANGUAGE)
PARTITION = balanced(PROXY)


def test_the_message_comes_back_with_a_verdict() -> None:
    decoder = Decoder(partition=PARTITION)
    for seed, message in enumerate((0, 613, 1023)):
        reading = decoder.read(LANGUAGE.text(150, seed, Marker(PARTITION, (message,))))
        assert (reading.verdict, reading.messages) == ("marked", (message,))
        assert reading.p_value < 1e-4
        assert reading.segments[0].candidates[0].message == message


def test_segments_come_back_in_order() -> None:
    sent = (700, 3, 1001)
    reading = Decoder(partition=PARTITION).read(LANGUAGE.text(330, 5, Marker(PARTITION, sent)), segments=3)
    assert reading.messages == sent
    assert {segment.verdict for segment in reading.segments} == {"marked"}


def test_text_after_the_last_segment_carries_the_first_again() -> None:
    config = balanced(PROXY, tokens_per_bit=4.0).config
    assert [config.segment_of(position, 2) for position in (3, 42, 43, 82, 83)] == [0, 0, 1, 1, 0]
    assert split_positions(90, config, 2)[0][-1] == 89


def test_vanilla_marking_comes_back_too() -> None:
    from models.balance_marking.partition import RandomPartition

    partition = RandomPartition(PARTITION.config)
    reading = Decoder(partition=partition).read(LANGUAGE.text(150, 4, Marker(partition, (77,))))
    assert (reading.verdict, reading.messages) == ("marked", (77,))


def test_the_right_key_is_needed() -> None:
    text = LANGUAGE.text(150, 5, Marker(PARTITION, (400,)))
    assert Decoder(partition=balanced(PROXY, key=78)).read(text).verdict != "marked"


def test_only_the_messages_asked_for_are_looked_for() -> None:
    text, decoder = LANGUAGE.text(150, 6, Marker(PARTITION, (400,))), Decoder(partition=PARTITION)
    assert decoder.read(text, among=[400, 9]).messages == (400,)
    assert decoder.read(text, among=[9, 10]).verdict != "marked"
    assert decoder.read(text, among=[]).segments[0].message is None


def test_an_unmarked_text_is_said_to_be_so_where_a_mark_would_have_been_seen() -> None:
    verdicts = [Decoder(partition=PARTITION).read(LANGUAGE.text(200, seed)).verdict for seed in range(40, 60)]
    assert verdicts.count("not_marked") >= 15
    assert verdicts.count("marked") <= 1


@pytest.mark.parametrize("length", [0, 1, 3, 4, 12])
def test_little_text_gives_no_verdict(length: int) -> None:
    reading = Decoder(partition=PARTITION).read(LANGUAGE.text(length, 8))
    assert reading.verdict == "too_short"


def test_a_weak_mark_cannot_be_excluded() -> None:
    weak = Decoder(partition=balanced(PROXY, delta=0.2))
    assert weak.read(LANGUAGE.text(120, 40)).verdict == "inconclusive"


def test_one_token_over_and_over_is_not_a_mark() -> None:
    for token in (0, 7, 33):
        reading = Decoder(partition=PARTITION).read([token] * 300)
        assert reading.segments[0].unique == 1
        assert reading.verdict == "too_short"


def test_a_pair_counts_once() -> None:
    config = balanced(PROXY).config
    assert first_of_each_pair([9, 9, 9, 1, 2, 1, 2, 3], range(3, 8), config) == [3, 4, 5, 7]


def test_a_substituted_word_in_ten_leaves_the_message() -> None:
    draw, recovered = np.random.default_rng(0), 0
    for seed in range(8):
        ids = LANGUAGE.text(200, seed, Marker(PARTITION, (321,)))
        for place in draw.choice(200, 20, replace=False):
            ids[place] = int(draw.integers(VOCABULARY))
        recovered += Decoder(partition=PARTITION).read(ids).messages == (321,)
    assert recovered >= 7


def test_the_first_tokens_and_unlikely_ones_are_left_alone() -> None:
    marker = Marker(balanced(PROXY, top_k=20), (5,))
    logits = np.linspace(0, 1, VOCABULARY, dtype=np.float32)
    early = logits.copy()
    marker([1, 2, 3, 4], [1, 2], early)
    assert (early == logits).all()
    later = logits.copy()
    marker([], [1, 2, 3], later)
    lowered = np.flatnonzero(later != logits)
    assert lowered.size
    assert lowered.min() >= VOCABULARY - 20
    assert (logits - later)[lowered] == pytest.approx(3.0)


def test_what_is_much_less_likely_than_the_likeliest_gains_nothing() -> None:
    logits = np.zeros(VOCABULARY, np.float32)
    logits[:8], logits[8:16] = 9.0, 3.5
    later = logits.copy()
    Marker(balanced(PROXY, reach=6.0), (5,))([], [1, 2, 3], later)
    available = PARTITION.available([1, 2, 3], 5, np.arange(VOCABULARY))
    assert 0 < available[:16].sum() < 16
    assert ((logits - later)[:16] == np.where(available[:16], 0.0, 3.0)).all()
    assert (logits - later)[16:] == pytest.approx(3.0)
    assert available[16:].any()


def test_where_all_that_is_likely_is_unavailable_the_choice_stays_what_it_was() -> None:
    unavailable = np.flatnonzero(~PARTITION.available([1, 2, 3], 5, np.arange(VOCABULARY)))
    logits = np.zeros(VOCABULARY, np.float32)
    logits[unavailable[:3]] = (8.0, 9.0, 7.5)
    later = logits.copy()
    Marker(balanced(PROXY, reach=6.0), (5,))([], [1, 2, 3], later)
    assert logits - later == pytest.approx(3.0)


@pytest.mark.parametrize("top_k", [1, 20, 900, 4999])
def test_the_likeliest_tokens_are_the_likeliest_whatever_their_order(top_k: int) -> None:
    draw = np.random.default_rng(top_k)
    mixed = draw.normal(size=5000)
    for logits in (mixed, np.sort(mixed), mixed * (draw.random(5000) < 0.1)):
        found = _likeliest(logits.astype(np.float32), top_k)
        assert len(set(found.tolist())) == top_k
        assert np.sort(logits[found]) == pytest.approx(np.sort(logits)[-top_k:])


def test_a_marked_token_does_not_depend_on_the_prompt() -> None:
    one, other = np.zeros(VOCABULARY, np.float32), np.zeros(VOCABULARY, np.float32)
    marker = Marker(PARTITION, (5,))
    marker([9, 8], [1, 2, 3], one)
    marker([], [1, 2, 3], other)
    assert (one == other).all()


def test_how_much_of_a_message_stands_in_a_text() -> None:
    marker = Marker(PARTITION, (5, 6))  # 3 + 100 a segment
    assert [marker.embedded(tokens) for tokens in (0, 102, 103, 202, 203, 900)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("segments", [(), (1024,), (-1,)])
def test_segments_that_do_not_fit_are_refused(segments: tuple[int, ...]) -> None:
    with pytest.raises(MarkingError, match="segments"):
        Marker(PARTITION, segments)


def test_counting_20_bits_takes_less_than_50_megabytes() -> None:
    draw = np.random.default_rng(0)
    votes = TableVotes(draw.integers(0, 1 << 12, 6) << 20, draw.integers(0, 2, (6, 100)).astype(np.int32))
    tracemalloc.start()
    counts = count_all(votes, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counts.dtype == np.int32
    assert peak < 10_000_000


CONFIG = MarkingConfig(vocabulary=2, key=1, message_bits=20)


@given(st.integers(1, 100).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(0, 2**bits - 1))))
def test_long_messages_survive_their_segments(case: tuple[int, int]) -> None:
    bits, message = case
    segments = split_message(message, bits, CONFIG)
    assert len(segments) == segments_for(bits, CONFIG)
    assert join_message(segments, CONFIG) == message


def test_a_message_that_does_not_fit_is_refused_with_the_arithmetic() -> None:
    check_length(2, 410, CONFIG)
    with pytest.raises(MarkingError, match="10 \\+ 2 segments x 200 = 410 tokens, but at most 409"):
        check_length(2, 409, CONFIG)
    with pytest.raises(MarkingError, match="does not fit 3 bits"):
        split_message(8, 3, CONFIG)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([4, 8, 10, 16, 20]), st.data())
def test_wrong_and_unread_segments_are_put_right(bits: int, data: st.DataObject) -> None:
    code = SegmentCode(4, MarkingConfig(vocabulary=2, key=1, message_bits=bits))
    sent = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=3))
    received: list[int | None] = list(code.encode(sent))
    assert received[: len(sent)] == sent
    places = data.draw(st.permutations(range(len(received))))
    wrong, unread = data.draw(st.sampled_from([(0, 0), (2, 0), (1, 2), (0, 4)]))
    for place in places[:wrong]:
        received[place] = (received[place] or 0) ^ data.draw(st.integers(1, 2**bits - 1))
    for place in places[wrong : wrong + unread]:
        received[place] = None
    assert code.decode(received) == tuple(sent)


def test_too_many_errors_are_reported_not_guessed() -> None:
    code = SegmentCode(2, CONFIG)
    sent = code.encode((1, 2, 3))
    assert code.decode([None, None, None, sent[3], sent[4]]) is None
    assert code.decode(sent, doubtful=[0, 1]) == (1, 2, 3)


def test_a_code_that_cannot_be_is_refused() -> None:
    for parity, bits in ((0, 20), (7, 20), (1, 17), (1, 2)):
        with pytest.raises(MarkingError):
            SegmentCode(parity, MarkingConfig(vocabulary=2, key=1, message_bits=bits))
    with pytest.raises(MarkingError, match="One code word holds"):
        SegmentCode(1, MarkingConfig(vocabulary=2, key=1, message_bits=4)).encode([1] * 15)
