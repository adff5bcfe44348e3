"""The key file: hashed entries, compared in constant time, read again when it changes, kept if an edit is bad."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

import pytest

from services.core import auth
from services.core.auth import KeyStore, hash_secret
from services.core.settings import SettingsError

SECRETS = {"team-a": "first-secret", "team-b": "second-secret", "team-c": "third-secret"}


def entry(name: str, secret: str, more: str = 'scopes = ["infer"]') -> str:
    return f'[[keys]]\nid = "{name}"\nsha256 = "{hash_secret(secret)}"\n{more}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys.toml"
    file.write_text("".join(entry(name, secret) for name, secret in SECRETS.items()))
    return file


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for changes at every request."""
    monkeypatch.setattr(auth, "RELOAD_SECONDS", 0.0)


def edit(file: Path, content: str | bytes) -> None:
    """Replace the file as a secret mount does: a new file under the old name."""
    fresh = file.with_suffix(".new")
    fresh.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.replace(fresh, file)


def test_each_secret_finds_its_own_key(path: Path) -> None:
    store = KeyStore(path)
    assert {name: store.find(secret).id for name, secret in SECRETS.items()} == {name: name for name in SECRETS}


@pytest.mark.parametrize("secret", ["", "first-secre", "first-secret ", "FIRST-SECRET", "é", "x" * 100_000])
def test_anything_else_finds_none(path: Path, secret: str) -> None:
    assert KeyStore(path).find(secret) is None


def test_the_hash_in_the_file_is_no_key(path: Path) -> None:
    assert KeyStore(path).find(hash_secret("first-secret")) is None


@pytest.mark.parametrize("secret", ["first-secret", "third-secret", "unknown"])
def test_every_entry_is_compared_in_constant_time_wherever_the_match_is(
    path: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def spy(got: str, expected: str) -> bool:
        compared.append(expected)
        return real(got, expected)

    real = hmac.compare_digest
    monkeypatch.setattr(auth.hmac, "compare_digest", spy)
    KeyStore(path).find(secret)
    assert compared == [hash_secret(s) for s in SECRETS.values()]


def test_a_secret_itself_is_never_in_memory_of_the_store(path: Path) -> None:
    store = KeyStore(path)
    store.find("first-secret")
    assert "first-secret" not in repr(vars(store))


@pytest.mark.usefixtures("at_once")
def test_an_edit_is_in_force_without_restart(path: Path) -> None:
    store = KeyStore(path)
    edit(path, entry("team-d", "fourth-secret"))
    assert store.find("fourth-secret").id == "team-d"
    assert store.find("first-secret") is None


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "broken",
    [
        "[[keys]",
        '[[keys]]\nid = "team-a"\n',
        entry("team-a", "x", 'scopes = ["everything"]'),
        entry("team-a", "x") + entry("team-a", "y"),
        b"\xff\xfe\x00",
        "",
    ],
    ids=["no TOML", "no hash", "unknown scope", "one id twice", "no text", "emptied"],
)
def test_a_broken_edit_leaves_the_known_keys_in_force(path: Path, broken: str | bytes) -> None:
    store = KeyStore(path)
    edit(path, broken)
    assert store.find("first-secret").id == "team-a"


@pytest.mark.usefixtures("at_once")
def test_a_file_that_vanishes_leaves_the_known_keys_in_force_until_it_is_back(path: Path) -> None:
    store = KeyStore(path)
    path.unlink()
    assert store.find("first-secret").id == "team-a"
    edit(path, entry("team-d", "fourth-secret"))
    assert store.find("first-secret") is None


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("[[keys]", "not TOML"),
        (b"\xff\xfe\x00", "not TOML"),
        (entry("team a", "x"), "keys.0.id"),
        ('[[keys]]\nid = "a"\nsha256 = "plain-secret"\nscopes = ["infer"]\n', "keys.0.sha256"),
        (entry("a", "x", 'scopes = ["root"]'), "keys.0.scopes.0"),
        (entry("a", "x", 'scopes = []\nsecret = "x"'), "keys.0.secret"),
        (entry("a", "x", "scopes = []\nrequests_per_minute = 0"), "keys.0.requests_per_minute"),
        (entry("a", "x") + entry("a", "y"), "one id twice"),
    ],
)
def test_a_bad_file_at_start_is_refused_by_the_entry_that_is_wrong(
    path: Path, content: str | bytes, names: str
) -> None:
    edit(path, content)
    with pytest.raises(SettingsError, match="keys_file") as refused:
        KeyStore(path)
    assert names in str(refused.value)


def test_a_secret_written_into_the_file_by_mistake_is_not_repeated_in_the_error(path: Path) -> None:
    edit(path, '[[keys]]\nid = "a"\nsha256 = "my-plain-secret"\nscopes = ["infer"]\n')
    with pytest.raises(SettingsError) as refused:
        KeyStore(path)
    assert "my-plain-secret" not in str(refused.value)


def test_a_missing_file_at_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        KeyStore(tmp_path / "none.toml")
