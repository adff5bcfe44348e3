"""Settings: flag before environment before file before default, each value with its origin, mistakes by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.core.settings import Settings, SettingsError, as_environment, load_settings
from services.core.wanted import Wanted, parse_wanted


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file with three values."""
    path = tmp_path / "press.toml"
    path.write_text("port = 4000\ngrpc_port = 4001\nworkers = 4\n")
    return path


def test_without_sources_every_value_is_the_default() -> None:
    loaded = load_settings(environment={})
    assert loaded.values == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.origins.keys() == Settings.model_fields.keys()


def test_the_stronger_source_wins_and_is_the_origin(file: Path) -> None:
    environment = {"PRESSROOM_CONFIG": str(file), "PRESSROOM_GRPC_PORT": "5001", "PRESSROOM_WORKERS": "5"}
    loaded = load_settings({"workers": 6, "host": None}, environment)
    values, origins = loaded.values, loaded.origins
    assert (values.port, origins["port"]) == (4000, "press.toml")
    assert (values.grpc_port, origins["grpc_port"]) == (5001, "environment")
    assert (values.workers, origins["workers"]) == (6, "flag")
    assert (values.host, origins["host"]) == ("127.0.0.1", "default")


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("1", True), ("false", False), ("0", False), ("True", True)]
)
def test_truth_is_read_from_the_environment(text: str, expected: bool) -> None:
    assert load_settings(environment={"PRESSROOM_CUDA": text}).values.cuda is expected


def test_variables_of_others_are_left_alone() -> None:
    assert load_settings(environment={"PORT": "1", "BENTOML_PORT": "2", "pressroom_port": "3"}).values.port == 3000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "0"),
        ("port", "65536"),
        ("port", "http"),
        ("grpc_port", "-1"),
        ("workers", "0"),
        ("threads", "1.5"),
        ("max_batch_rows", "0"),
        ("max_delay_ms", "-1"),
        ("max_delay_ms", "nan"),
        ("max_queue_rows", "0"),
        ("body_limit_bytes", "10"),
        ("request_timeout_ms", "0"),
        ("drain_seconds", "-1"),
        ("drain_seconds", "inf"),
        ("cuda", "perhaps"),
    ],
)
def test_a_value_out_of_range_is_refused_with_name_origin_and_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(environment={f"PRESSROOM_{name.upper()}": value})
    message = str(refused.value)
    assert name in message
    assert "environment" in message
    assert value in message


def test_an_unknown_name_in_the_file_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "press.toml"
    path.write_text("prot = 4000\n")
    with pytest.raises(SettingsError, match=r"prot \(from press.toml\) is not a setting; known: .*port"):
        load_settings(environment={"PRESSROOM_CONFIG": str(path)})


@pytest.mark.parametrize("content", ["port = ", "port: 4000", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_refused_by_name(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "press.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsError, match=r"press\.toml"):
        load_settings(environment={"PRESSROOM_CONFIG": str(path)})


def test_a_missing_file_is_refused_without_its_directory(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"PRESSROOM_CONFIG: the file gone\.toml") as refused:
        load_settings(environment={"PRESSROOM_CONFIG": str(tmp_path / "gone.toml")})
    assert str(tmp_path) not in str(refused.value)


def test_settings_travel_to_the_workers_as_environment(file: Path) -> None:
    flags: dict[str, Any] = {"models": "a, b:2 ,", "max_delay_ms": 0.5, "cuda": True}
    loaded = load_settings(flags, {"PRESSROOM_CONFIG": str(file)})
    environment = as_environment(loaded)
    assert environment.keys() >= {"PRESSROOM_MODELS", "PRESSROOM_MAX_DELAY_MS", "PRESSROOM_CUDA", "PRESSROOM_PORT"}
    assert "PRESSROOM_THREADS" not in environment
    assert load_settings(environment=environment).values == loaded.values


@pytest.mark.parametrize(
    ("text", "entries"), [("", []), ("a", ["a"]), ("a,b:2", ["a", "b:2"]), (" a , b:2 ,, ", ["a", "b:2"])]
)
def test_the_list_of_models_is_read_entry_by_entry(text: str, entries: list[str]) -> None:
    assert Settings(models=text).model_list() == entries


def test_every_setting_says_what_it_is() -> None:
    assert all(len(field.description or "") > 5 for field in Settings.model_fields.values())


DIGEST = "sha256:" + "0f" * 32


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("a", Wanted("a")),
        ("a:", Wanted("a")),
        ("a:2", Wanted("a", "2")),
        ("a:all", Wanted("a", "all")),
        (f"a:2@{DIGEST}", Wanted("a", "2", DIGEST)),
    ],
)
def test_an_entry_names_a_model_its_version_and_the_digest_it_must_have(entry: str, wanted: Wanted) -> None:
    assert parse_wanted(entry) == wanted


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("a:2@", "expected sha256: and 64 hex digits"),
        ("a:2@sha256:0f", "expected sha256: and 64 hex digits"),
        (f"a:2@{DIGEST.upper()}", "expected sha256: and 64 hex digits"),
        (f"a@{DIGEST}", "names no version"),
        (f"a:all@{DIGEST}", "names no version"),
    ],
)
def test_a_pin_that_cannot_hold_is_refused_at_start(entry: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        load_settings({"models": entry})
