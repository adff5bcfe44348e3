"""Who is let in: scopes, limits of a key, the world without keys, and the number of requests in the house."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.core import gate as gate_module
from services.core.auth import hash_secret
from services.core.errors import ApiError
from services.core.gate import Gate, Window, is_loopback
from services.core.settings import Settings

LOCAL, WORLD = "127.0.0.1", "203.0.113.5"


def keys_file(folder: Path, *entries: str) -> str:
    file = folder / "keys.toml"
    file.write_text("".join(f"[[keys]]\n{entry}\n" for entry in entries))
    return str(file)


def entry(name: str, scopes: str, more: str = "") -> str:
    return f'id = "{name}"\nsha256 = "{hash_secret(name)}"\nscopes = [{scopes}]\n{more}'


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(gate_module, "monotonic", lambda: now[0])
    return now


def code(gate: Gate, scope, secret: str | None, address: str = LOCAL) -> str:
    try:
        gate.admit(scope, secret, address)
    except ApiError as refusal:
        return refusal.code
    return "ok"


def test_each_scope_opens_its_own_door_only(tmp_path: Path) -> None:
    file = keys_file(tmp_path, *(entry(scope, f'"{scope}"') for scope in ("infer", "metrics", "admin")))
    gate = Gate(Settings(keys_file=file))
    for held in ("infer", "metrics", "admin"):
        for asked in ("infer", "metrics", "admin"):
            assert code(gate, asked, held) == ("ok" if held == asked else "permission_denied")


def test_no_key_and_an_unknown_key_are_unauthenticated(tmp_path: Path) -> None:
    gate = Gate(Settings(keys_file=keys_file(tmp_path, entry("a", '"infer"'))))
    assert code(gate, "infer", None) == code(gate, "infer", "unknown") == code(gate, "infer", "") == "unauthenticated"


def test_an_open_route_needs_no_key(tmp_path: Path) -> None:
    gate = Gate(Settings(keys_file=keys_file(tmp_path, entry("a", '"infer"'))))
    assert gate.admit(None, None, WORLD).key_id is None


@pytest.mark.parametrize(
    ("settings", "scope", "address", "expected"),
    [
        ({}, "infer", LOCAL, "ok"),
        ({}, "metrics", "::1", "ok"),
        ({}, "infer", WORLD, "unauthenticated"),
        ({}, "metrics", WORLD, "unauthenticated"),
        ({"insecure": True}, "infer", WORLD, "ok"),
        ({"insecure": True}, "admin", WORLD, "permission_denied"),
        ({}, "admin", LOCAL, "permission_denied"),
    ],
)
def test_without_keys_only_loopback_or_insecure_is_answered_and_nobody_administers(
    settings, scope, address, expected
) -> None:
    assert code(Gate(Settings(**settings)), scope, None, address) == expected


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "", "localhost.example.org")],
)
def test_what_counts_as_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_minute_holds_its_requests_then_refuses_with_the_time_to_wait(tmp_path: Path, clock: list[float]) -> None:
    file = keys_file(tmp_path, entry("a", '"infer"', "requests_per_minute = 3"))
    gate = Gate(Settings(keys_file=file))
    left = [gate.admit("infer", "a", LOCAL).headers["ratelimit-remaining"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    clock[0] += 20.5
    with pytest.raises(ApiError) as refused:
        gate.admit("infer", "a", LOCAL)
    assert (refused.value.code, refused.value.retry_after_ms) == ("rate_limited", 39_500)
    clock[0] += 39.5
    assert gate.admit("infer", "a", LOCAL).headers == {
        "ratelimit-limit": "3",
        "ratelimit-remaining": "2",
        "ratelimit-reset": "60",
    }


def test_a_day_limit_holds_beside_the_minutes(tmp_path: Path, clock: list[float]) -> None:
    file = keys_file(tmp_path, entry("a", '"infer"', "requests_per_minute = 10\nrequests_per_day = 4"))
    gate = Gate(Settings(keys_file=file))
    for _ in range(4):
        gate.admit("infer", "a", LOCAL)
        clock[0] += 60
    assert code(gate, "infer", "a") == "rate_limited"


def test_what_the_day_refuses_is_not_counted_against_the_minute(tmp_path: Path, clock: list[float]) -> None:
    file = keys_file(tmp_path, entry("a", '"infer"', "requests_per_minute = 3\nrequests_per_day = 1"))
    gate = Gate(Settings(keys_file=file))
    gate.admit("infer", "a", LOCAL)
    for _ in range(5):
        with pytest.raises(ApiError) as refused:
            gate.admit("infer", "a", LOCAL)
        assert refused.value.headers["ratelimit-limit"] == "1"  # the day's


def test_each_key_has_its_own_count(tmp_path: Path, clock: list[float]) -> None:
    limited = "requests_per_minute = 1"
    file = keys_file(tmp_path, entry("a", '"infer"', limited), entry("b", '"infer"', limited), entry("c", '"infer"'))
    gate = Gate(Settings(keys_file=file))
    assert [code(gate, "infer", key) for key in ("a", "b", "a", "b")] == ["ok", "ok", "rate_limited", "rate_limited"]
    assert gate.admit("infer", "c", LOCAL).headers == {}


def test_workers_share_a_key_s_limit(tmp_path: Path, clock: list[float]) -> None:
    gate = Gate(Settings(keys_file=keys_file(tmp_path, entry("a", '"infer"', "requests_per_minute = 10")), workers=4))
    assert [code(gate, "infer", "a") for _ in range(3)] == ["ok", "ok", "rate_limited"]


def test_a_refused_scope_uses_up_nothing(tmp_path: Path, clock: list[float]) -> None:
    gate = Gate(Settings(keys_file=keys_file(tmp_path, entry("a", '"infer"', "requests_per_minute = 1"))))
    assert [code(gate, scope, "a") for scope in ("admin", "admin", "infer")] == ["permission_denied"] * 2 + ["ok"]


def test_a_window_never_counts_more_than_its_limit() -> None:
    window = Window(2, 60)
    taken = [window.take(now) is None for now in (0, 1, 2, 59.9, 60, 61, 62)]
    assert taken == [True, True, False, False, True, True, False]


def test_places_are_given_back_whatever_happens_inside() -> None:
    gate = Gate(Settings(max_in_flight=1))
    with pytest.raises(KeyError), gate.inside():
        raise KeyError
    with gate.inside():
        with pytest.raises(ApiError) as refused, gate.inside():
            pass
        assert (refused.value.code, refused.value.retry_after_ms) == ("too_many_in_flight", 100)
    with gate.inside():
        pass
