"""Schemes and their certificate: a second program counts the same, and notices what is wrong or too weak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from marked import Language, balanced, bigram, naive_counts

import models.balance_marking.partition
from export.errors import ParityError
from export.watermark_parity import certificate, check_cases, draw_cases
from export.watermark_reference import Reference
from models.balance_marking.check import Evidence
from models.balance_marking.config import MarkingError
from models.balance_marking.decoder import Decoder
from models.balance_marking.encoder import Marker
from models.balance_marking.scheme import MarkingScheme, shared_level

LANGUAGE = Language(3)
PROXY = bigram(LANGUAGE)


def test_the_second_program_counts_as_the_decoder_and_as_the_definition_does() -> None:
    partition = balanced(PROXY, message_bits=4)
    ids = LANGUAGE.text(60, 7)
    settings = {
        "vocabulary": 80,
        "message_bits": 4,
        "permutations": 40,
        "window": 3,
        "hash_window": 1,
        "tokens_per_bit": 99,
    }
    reference = Reference(settings, 77, PROXY.arrays())
    positions, seen = [], set()
    for position in range(3, 60):
        if (pair := (ids[position - 1], ids[position])) not in seen:
            positions.append(position)
            seen.add(pair)
    assert [reference.count(ids, 1, 0, message) for message in range(16)] == naive_counts(partition, ids, positions)


def scheme_of(**changes: Any) -> MarkingScheme:
    settings = {"vocabulary": 80, "message_bits": 6, "permutations": 20, "delta": 4.0}
    return MarkingScheme(**(settings | changes))


def test_a_wrong_partition_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme, proxy = scheme_of(), PROXY
    draw_cases(scheme, proxy, tmp_path)
    assert certificate(check_cases(scheme, proxy, tmp_path))["max_abs"] == 0.0
    monkeypatch.setattr(models.balance_marking.partition, "HALF", 0.45)
    with pytest.raises(ParityError, match="counts differ by"):
        certificate(check_cases(scheme, proxy, tmp_path))


def test_a_scheme_too_weak_for_its_messages_is_refused(tmp_path: Path) -> None:
    scheme, proxy = scheme_of(delta=0.01), PROXY
    draw_cases(scheme, proxy, tmp_path)
    with pytest.raises(ParityError, match="embedded") as refused:
        certificate(check_cases(scheme, proxy, tmp_path))
    assert "--delta" in refused.value.hint


def test_schemes_share_a_level_and_keep_their_arithmetic() -> None:
    assert 1 - (1 - shared_level(0.01, 5)) ** 5 == pytest.approx(0.01)
    scheme = scheme_of(message_bits=8, parity=2)
    assert (scheme.segments(8), scheme.segments(9), scheme.tokens_needed(3)) == (3, 4, 1 + 3 * 72)
    sent = scheme.encode(200, 8)
    assert scheme.decode([None, *sent[1:]]) == 200
    assert scheme.decode([sent[0] ^ 1, *sent[1:]]) == 200
    assert scheme_of().decode([5, None]) is None


def test_one_expected_message_needs_far_fewer_tokens_than_any_message() -> None:
    partition = balanced(PROXY)
    ids = LANGUAGE.text(18, 5, Marker(partition, (400,)))
    decoder = Decoder(partition=partition)
    assert decoder.read(ids).verdict != "marked"
    evidence = Evidence.of(decoder, ids, 1)
    found, other = evidence.check((400,)), evidence.check((401,))
    assert (found.verdict, other.verdict) == ("marked", "inconclusive")  # too little text to exclude a mark
    assert found.count == naive_counts_of(partition, ids, 400)
    assert evidence.check((400,), among=50).p_value > found.p_value


def naive_counts_of(partition: Any, ids: list[int], message: int) -> int:
    first: dict[tuple[int, int], int] = {}
    for position in range(3, len(ids)):
        first.setdefault((ids[position - 1], ids[position]), position)
    return naive_counts(partition, ids, list(first.values()))[message]


def test_checks_of_unmarked_texts_are_even() -> None:
    partition = balanced(PROXY)
    decoder = Decoder(partition=partition)
    values = sorted(Evidence.of(decoder, LANGUAGE.text(60, seed), 1).check((7,)).p_value for seed in range(200))
    furthest = max(abs(value - (at + 0.5) / 200) for at, value in enumerate(values))
    assert furthest < 0.12  # Kolmogorov-Smirnov's bound at one in a hundred


@pytest.mark.parametrize(
    "changes", [{"level": 0}, {"level": 0.6}, {"delta": 21}, {"parity": 99}, {"message_bits": 17, "parity": 1}]
)
def test_schemes_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MarkingError):
        scheme_of(**changes)


def test_settings_of_an_artifact_come_back() -> None:
    scheme = scheme_of(parity=1, level=0.02)
    assert MarkingScheme.from_settings(scheme.as_settings()) == scheme
    before_reach = {name: value for name, value in scheme.as_settings().items() if name != "reach"}
    assert MarkingScheme.from_settings(before_reach) == replace(scheme, reach=0.0)
    with pytest.raises(TypeError):
        MarkingScheme.from_settings({**scheme.as_settings(), "colour": 3})
