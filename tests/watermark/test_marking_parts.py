"""Keys, the registry of messages, the desk where texts are read, and the processor wherever the engine runs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy
import torch
from bentoml._internal.configuration.containers import BentoMLContainer
from bentoml._internal.models import ModelStore
from marked_server import LLM, SCHEME, SECRETS
from typer.testing import CliRunner

from export.artifact import open_artifact
from models.errors import InputError
from services.core.call import Call
from services.core.errors import ApiError
from services.core.metrics import ModelMetrics
from services.core.payload_log import redact
from services.core.settings import SettingsError, load_settings
from services.generation.pool import read_spec
from services.generation.processors import REGISTRY, Asked, Subject
from services.generation.request import GenerationRequest
from services.generation.tokenizer import Tokenizer
from services.generation.vllm_request import EXTRA, RemoteProcessors, sampling_arguments
from services.marking import keys as key_files
from services.marking import marking as marking_module
from services.marking.desk import Desk
from services.marking.keys import KeyRing, MarkingKey, read_keys
from services.marking.registry import Facts, MessageRegistry

ENTRY = '[[keys]]\nid = "a"\nsecret = "' + "ab" * 32 + '"\n'


def test_a_key_shows_its_id_and_never_its_number(key_file: Path) -> None:
    keys = read_keys(key_file)
    assert [key.id for key in keys.all] == ["new", "old"]
    assert keys.find("old") == MarkingKey.of("old", SECRETS["old"])
    assert keys.find("other") is None
    assert str(keys.current.number) not in repr(keys)
    assert 0 < keys.current.number < 2**61 - 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = 5", "current"),
        ("nonsense", "not TOML"),
        ('current = "a"\n[[keys]]\nid = "b"\nsecret = "' + "ab" * 32 + '"', "no key 'a'"),
        ('current = "a"\n[[keys]]\nid = "a"\nsecret = "tooshortbutsecret"', "secret"),
        ('current = "a"\n[[keys]]\nid = "a b"\nsecret = "' + "ab" * 32 + '"', "id"),
        (f'current = "a"\n{ENTRY}{ENTRY}', "twice"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_refused_without_its_secrets(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said) as refused:
        read_keys(file)
    assert "ab" * 32 not in str(refused.value)
    assert "tooshortbutsecret" not in str(refused.value)


def test_keys_rotate_without_a_restart_and_a_broken_file_changes_nothing(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(key_files, "RELOAD_SECONDS", 0.0)
    file = tmp_path / "keys.toml"
    file.write_text(key_file.read_text())
    ring = KeyRing(file)
    file.write_text(key_file.read_text().replace('current = "new"', 'current = "old"'))
    assert ring.keys.current.id == "old"
    with caplog.at_level(logging.ERROR, logger="pressroom.watermark"):
        file.write_text("broken")
        assert ring.keys.current.id == "old"
    assert "not in force" in caplog.text
    assert not any(secret in caplog.text for secret in SECRETS.values())


def test_the_command_line_draws_keys_and_shows_none(tmp_path: Path) -> None:
    from pressroom.cli import app

    file, run = tmp_path / "keys.toml", CliRunner()
    for arguments in (["one"], ["two"], ["three", "--no-current"]):
        done = run.invoke(app, ["text", "key", *arguments, "--file", str(file)])
        assert done.exit_code == 0, done.output
        assert not any(line.split('"')[1] in done.output for line in file.read_text().splitlines() if "secret" in line)
    keys = read_keys(file)
    assert [key.id for key in keys.all] == ["two", "one", "three"]
    assert len({key.number for key in keys.all}) == 3
    assert os.stat(file).st_mode & 0o077 == 0
    assert run.invoke(app, ["text", "key", "one", "--file", str(file)]).exit_code == 2


def test_the_same_facts_have_one_number_in_every_worker(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'messages.db'}"
    one, other = MessageRegistry(url), MessageRegistry(url)
    facts = Facts(model="m", version="1", digest="sha256:0", bucket="2026-11-30T00:00+00:00")
    number = one.number(facts, 20)
    assert other.number(facts, 20) == number == one.known(facts, 20)
    known = other.facts(number, 20)
    assert known is not None
    assert (known["model"], known["bucket"], "label" in known) == ("m", facts.bucket, False)
    assert one.facts((number + 1) % 2**20, 20) is None
    assert one.number(Facts(label="x"), 20) != number
    assert sorted(other.messages(20)) == sorted([number, one.number(Facts(label="x"), 20)])
    one.close()
    other.close()


def test_workers_that_register_at_once_agree_and_numbers_never_collide(tmp_path: Path) -> None:
    url, found = f"sqlite:///{tmp_path / 'messages.db'}", []
    registries = [MessageRegistry(url) for _ in range(4)]

    def register(registry: MessageRegistry) -> None:
        found.append([registry.number(Facts(label=f"label {i}"), 6) for i in range(20)])

    threads = [threading.Thread(target=register, args=(registry,)) for registry in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(numbers == found[0] for numbers in found)
    assert len(set(found[0])) == 20
    for registry in registries:
        registry.close()


def test_a_registry_that_fails_is_told_without_its_address(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        MessageRegistry(f"sqlite:///{tmp_path / 'missing' / 'messages.db'}")
    assert "missing" not in str(refused.value)
    registry = MessageRegistry(f"sqlite:///{tmp_path / 'messages.db'}")
    with registry._engine.begin() as connection:
        connection.execute(sqlalchemy.text("drop table pressroom_watermark_messages"))
    with pytest.raises(ApiError) as unavailable:
        registry.number(Facts(label="x"), 20)
    assert unavailable.value.code == "model_not_ready"
    registry.close()


def test_a_full_registry_says_so(tmp_path: Path) -> None:
    registry = MessageRegistry(f"sqlite:///{tmp_path / 'messages.db'}")
    assert {registry.number(Facts(label=str(i)), 1) for i in range(2)} == {0, 1}
    with pytest.raises(ApiError, match="no number of 1 bits left"):
        registry.number(Facts(label="third"), 1)
    registry.close()


async def test_readings_wait_in_a_bounded_queue_and_late_ones_are_dropped() -> None:
    desk, begun, go = Desk(2, 0, ModelMetrics("desk", "1")), threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        go.wait(10)
        return "read"

    first = asyncio.create_task(desk.read([slow], Call("x", "http", "1")))
    await asyncio.to_thread(begun.wait, 10)
    late = asyncio.create_task(desk.read([lambda: "late"], Call("x", "http", "2", deadline=0.0)))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as full:
        await desk.read([lambda: "never"], Call("x", "http", "3"))
    assert (full.value.code, full.value.retry_after_ms is not None) == ("queue_full", True)
    go.set()
    assert await first == ["read"]
    with pytest.raises(ApiError) as dropped:
        await late
    assert dropped.value.code == "deadline_exceeded"
    await desk.close()
    with pytest.raises(ApiError) as closed:
        await desk.read([lambda: "never"], Call("x", "http", "4"))
    assert closed.value.code == "shutting_down"


async def test_every_caller_has_a_limit_of_its_own() -> None:
    desk, one, other = Desk(9, 2, ModelMetrics("desk", "1")), Call("x", "http", "1"), Call("x", "http", "2")
    other.key_id = "another"
    desk.take(2, one)
    desk.take(1, other)
    with pytest.raises(ApiError) as limited:
        desk.take(1, one)
    assert (limited.value.code, limited.value.retry_after_ms is not None) == ("rate_limited", True)
    await desk.close()


@pytest.fixture
def marking(mark_home: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[marking_module.Marking]:
    """This process's own marking, of the pressed scheme."""
    BentoMLContainer.model_store.set(ModelStore(mark_home / "models"))
    monkeypatch.setenv("PRESSROOM_WATERMARK_KEYS_FILE", str(key_file))
    monkeypatch.setenv("PRESSROOM_WATERMARK_SCHEME", SCHEME)
    marking_module.of_this_process.cache_clear()
    yield marking_module.of_this_process()
    marking_module.of_this_process.cache_clear()
    BentoMLContainer.model_store.reset()


ASKED = Asked(200, 1.0, Subject(LLM, "1", "sha256:0"))


def test_the_argument_that_travels_to_vllm_names_the_key_and_never_holds_it(marking: Any) -> None:
    artifact = open_artifact(LLM)
    spec, tokenizer = read_spec(artifact), Tokenizer.from_file(artifact.file("tokenizer.json"))
    arguments = REGISTRY.resolve({"watermark": {"message": 77, "key_id": "old"}}, ASKED)
    assert arguments == {"watermark": {"scheme": f"{SCHEME}:1", "segments": [77], "key_id": "old", "delta": 6.0}}
    processors = REGISTRY.make(arguments, spec, tokenizer)
    request = GenerationRequest(prompt=(5,), max_tokens=200, processors=processors)
    travelling = json.loads(json.dumps(sampling_arguments(request, spec)["extra_args"]))
    assert str(read_keys(Path(marking.settings.watermark_keys_file)).all[1].number) not in json.dumps(travelling)
    remote = RemoteProcessors(travelling[EXTRA], REGISTRY, spec, tokenizer)
    draw = np.random.default_rng(0)
    for step in range(3):
        generated, logits = draw.integers(2, 320, step).tolist(), draw.normal(size=320).astype(np.float32)
        there = remote([5], generated, torch.from_numpy(logits.copy()))
        processors[0]([5], generated, logits)
        assert there.numpy().tolist() == logits.tolist()


def test_the_same_message_under_another_key_marks_otherwise(marking: Any) -> None:
    artifact = open_artifact(LLM)
    spec, tokenizer = read_spec(artifact), Tokenizer.from_file(artifact.file("tokenizer.json"))
    rows = []
    for key in ("new", "old"):
        argument = REGISTRY.resolve({"watermark": {"message": 77, "key_id": key}}, ASKED)
        logits = np.zeros(320, np.float32)
        REGISTRY.make(argument, spec, tokenizer)[0]([], [9, 8], logits)
        rows.append(logits)
    assert set(rows[0].tolist()) == {0.0, -6.0}
    assert (rows[0] != rows[1]).any()


def test_a_request_that_asks_for_nothing_is_left_alone(marking: Any) -> None:
    assert REGISTRY.resolve({}, ASKED) == {}


def test_a_model_of_another_vocabulary_is_not_marked_with_this_scheme(marking: Any) -> None:
    with pytest.raises(InputError, match="made for another tokenizer"):
        marking.of_answers.require(marking.of_answers.tokenizer, 321)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"watermark_policy": "always"}, "needs watermark_scheme and watermark_keys_file and watermark_registry"),
        ({"watermark_policy": "always", "watermark_message": "5"}, "needs watermark_scheme and watermark_keys_file$"),
        ({"watermark_message": "five"}, "a whole number or `registry`"),
    ],
)
def test_settings_that_mark_nothing_are_refused_at_the_start(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(settings, {})


def test_the_registrys_password_is_not_shown() -> None:
    loaded = load_settings({"watermark_registry": "postgresql://mark:se:cr@t@db.example/marks"}, {})
    assert loaded.values.shown()["watermark_registry"] == "postgresql://mark:***@db.example/marks"
    assert load_settings({}, {}).values.shown()["watermark_registry"] == ""


def test_messages_do_not_reach_the_payload_log() -> None:
    assert redact({"prompt": "x", "watermark": {"message": 7}}) == {"prompt": "x", "watermark": "[redacted]"}
