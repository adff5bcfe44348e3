"""Shares of traffic: exact for given request ids, the same for a retry, forgotten with the version."""

from __future__ import annotations

import hashlib

import pytest

from services.core.settings import SettingsError
from services.core.traffic import Share, Traffic, newest_first, parse_shares

IDS = [f"request-{i}" for i in range(1000)]


def drawn(request_id: str) -> float:
    """What the canary draws for a request id: 48 bits of blake2b, as a fraction."""
    return int.from_bytes(hashlib.blake2b(f"canary:{request_id}".encode(), digest_size=6).digest(), "big") / 2**48


def traffic(canary: float | None = None, shadow: float | None = None) -> Traffic:
    share = {} if canary is None else {"m": Share("2", canary)}
    return Traffic(share, {} if shadow is None else {"m": Share("2", shadow)})


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 1.0])
def test_the_canary_gets_exactly_the_ids_its_draw_says(fraction: float) -> None:
    chosen = [i for i in IDS if traffic(fraction).pick("m", ["1", "2"], i) == "2"]
    assert chosen == [i for i in IDS if drawn(i) < fraction]
    assert len(chosen) / len(IDS) == pytest.approx(fraction, abs=0.03)


def test_the_same_request_id_meets_the_same_version() -> None:
    one, other = traffic(0.5), traffic(0.5)
    assert [one.pick("m", ["1", "2"], i) for i in IDS] == [other.pick("m", ["2", "1"], i) for i in IDS]


def test_a_larger_share_keeps_the_callers_it_had() -> None:
    small = {i for i in IDS if traffic(0.1).pick("m", ["1", "2"], i) == "2"}
    assert small < {i for i in IDS if traffic(0.3).pick("m", ["1", "2"], i) == "2"}


def test_the_rest_goes_to_the_newest_other_version() -> None:
    assert traffic(0.0).pick("m", ["1", "10", "9", "2"], "x") == "10"


def test_without_a_share_the_newest_answers() -> None:
    assert {traffic().pick("m", ["1", "10", "9"], i) for i in IDS} == {"10"}


def test_a_canary_alone_answers_everything() -> None:
    assert traffic(0.1).pick("m", ["2"], "x") == "2"


def test_a_canary_that_is_not_loaded_gets_nothing() -> None:
    assert {traffic(1.0).pick("m", ["1"], i) for i in IDS} == {"1"}


def test_another_model_is_not_affected() -> None:
    assert traffic(1.0).pick("other", ["1", "3"], "x") == "3"


def test_a_shadow_follows_other_versions_only() -> None:
    assert traffic(shadow=1.0).follower("m", "1", "x") == "2"
    assert traffic(shadow=1.0).follower("m", "2", "x") is None
    assert traffic(shadow=0.0).follower("m", "1", "x") is None


def test_canary_and_shadow_draw_independently() -> None:
    both = traffic(0.5, 0.5)
    followed = [i for i in IDS if both.pick("m", ["1", "2"], i) == "1" and both.follower("m", "1", i)]
    assert len(followed) / len(IDS) == pytest.approx(0.25, abs=0.05)


def test_an_unloaded_version_s_shares_are_forgotten() -> None:
    shares = traffic(1.0, 1.0)
    shares.forget("m", "1")
    assert shares.pick("m", ["1", "2"], "x") == "2"
    shares.forget("m", "2")
    assert shares.pick("m", ["1", "2"], "x") == "2"  # as the newest
    assert shares.follower("m", "1", "x") is None


@pytest.mark.parametrize(
    ("versions", "ranked"),
    [(["1", "2", "10"], ["10", "2", "1"]), (["a", "1"], ["1", "a"]), (["b", "a"], ["a", "b"]), ([], [])],
)
def test_the_newest_is_the_highest_number_then_the_last_loaded(versions: list[str], ranked: list[str]) -> None:
    assert newest_first(versions) == ranked


def test_shares_are_read_from_a_setting() -> None:
    assert parse_shares(" m:2=0.1, n:v3=1 ,", "canary") == {"m": Share("2", 0.1), "n": Share("v3", 1.0)}


@pytest.mark.parametrize("text", ["m=0.1", "m:2", "m:2=", "m:2=x", "m:2=1.1", "m:2=-0.1", "m:2=nan", ":2=0.1"])
def test_a_bad_share_is_refused_with_setting_and_entry(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_shares(f"ok:1=0.5, {text}", "canary")
    assert "canary" in str(refused.value)
    assert repr(text) in str(refused.value)
