"""Administrators' commands: read strictly, followed once by every other worker, repeated in full by a new one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.core.control import Command, CommandLog, read_command
from services.core.errors import ApiError

LOAD = Command(operation="load", name="m", version="2", canary_weight=0.1)
UNLOAD = Command(operation="unload", name="m", version="1")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    return tmp_path / "commands.jsonl"


def as_another_worker(file: Path) -> None:
    """Change whose commands these are: a new pid in every line."""
    entries = [json.loads(line) | {"worker": 1} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def test_a_worker_does_not_follow_its_own_commands(shared: Path) -> None:
    log = CommandLog()
    log.write(LOAD)
    assert log.unread() == []


def test_other_workers_follow_each_command_once_in_order(shared: Path) -> None:
    writer, follower = CommandLog(), CommandLog()
    writer.write(LOAD)
    writer.write(UNLOAD)
    as_another_worker(shared)
    assert follower.unread() == [LOAD, UNLOAD]
    assert follower.unread() == []


def test_a_worker_that_starts_later_follows_them_all(shared: Path) -> None:
    CommandLog().write(LOAD)
    as_another_worker(shared)
    CommandLog().unread()
    assert CommandLog().unread() == [LOAD]


def test_a_process_without_companions_keeps_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    log = CommandLog()
    log.write(LOAD)
    assert log.unread() == []


def test_a_command_is_read_from_a_request_s_parameters() -> None:
    parameters = {"version": "2", "canary_weight": 0.1, "shadow_fraction": 1}
    assert read_command("load", "m", parameters) == Command(
        operation="load", name="m", version="2", canary_weight=0.1, shadow_fraction=1
    )
    assert read_command("unload", "m", {"version": ""}) == Command(operation="unload", name="m")


def test_an_unload_of_triton_s_clients_is_understood() -> None:
    assert read_command("unload", "m", {"unload_dependents": False}) == Command(operation="unload", name="m")


@pytest.mark.parametrize(
    ("operation", "parameters", "field"),
    [
        ("load", {"config": "{}"}, "parameters"),
        ("load", {"version": 2}, "parameters.version"),
        ("load", {"canary_weight": "0.1"}, "parameters.canary_weight"),
        ("load", {"canary_weight": 1.5}, "parameters.canary_weight"),
        ("load", {"canary_weight": True}, "parameters.canary_weight"),
        ("load", {"shadow_fraction": float("nan")}, "parameters.shadow_fraction"),
        ("unload", {"canary_weight": 0.1}, "parameters"),
    ],
)
def test_an_unusable_parameter_is_named(operation, parameters, field: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_command(operation, "m", parameters)
    assert (refused.value.code, refused.value.field) == ("invalid_request", field)
