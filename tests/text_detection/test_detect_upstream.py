"""The operator's endpoint: how it is asked, what is tried again, what a failure costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from detecting import PROSE
from tiny_endpoint import Reply, running_endpoint, text

from models.dna_gpt.detector import DetectorSpec, Generator
from models.dna_gpt.parts import take_apart
from services.core.call import Call
from services.core.settings import Settings, SettingsError
from services.text_detection import upstream as module
from services.text_detection.asking import Asked, Work
from services.text_detection.black_box import BlackBox
from services.text_detection.upstream import Upstream, UpstreamError, UpstreamOptions, read_key

GENERATOR = Generator(name="lm", version="1", digest="sha256:0", tokenizer_digest="sha256:1")
SPEC = DetectorSpec(generator=GENERATOR, seed=10)
WORDS = PROSE.split()
STARTS = [PROSE.index(word) for word in WORDS]
SHARED = text("much of the agenda")
PARTS = take_apart(PROSE, list(range(len(WORDS))), [(at, at + 1) for at in STARTS], 0.5)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.002)


async def continued(url: str, **options: Any) -> str:
    """One continuation."""
    upstream = Upstream(UpstreamOptions(url=url, model="gpt", **options))
    try:
        return await upstream.continued("Once upon", tokens=7, temperature=0.7, seed=3)
    finally:
        await upstream.close()


async def failure(script: Callable[[int], Reply], **options: Any) -> tuple[str, int]:
    """Why a continuation did not come, and how often it was asked for."""
    async with running_endpoint(script) as endpoint:
        with pytest.raises(UpstreamError) as caught:
            await continued(endpoint.url, **options)
    return caught.value.reason, len(endpoint.bodies)


async def test_completions_get_the_text_as_their_prompt() -> None:
    async with running_endpoint(lambda number: text(" a time")) as endpoint:
        assert await continued(endpoint.url, key="secret") == " a time"
    wanted = {"model": "gpt", "prompt": "Once upon", "max_tokens": 7, "temperature": 0.7, "seed": 3}
    assert (endpoint.paths, endpoint.bodies) == (["/v1/completions"], [wanted])
    assert endpoint.headers[0]["authorization"] == "Bearer secret"


async def test_chats_are_asked_to_go_on() -> None:
    answer = Reply(body={"choices": [{"message": {"role": "assistant", "content": "a time"}}]})
    async with running_endpoint(lambda number: answer) as endpoint:
        assert await continued(endpoint.url, api="chat") == "a time"
    assert endpoint.paths == ["/v1/chat/completions"]
    (message,) = endpoint.bodies[0]["messages"]
    assert message["role"] == "user"
    assert message["content"].endswith("\n\nOnce upon")
    assert "authorization" not in endpoint.headers[0]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    replies = [Reply(status, {"error": {}}, {"retry-after": "0"}), Reply(hang_up=True), text("there")]
    async with running_endpoint(lambda number: replies[number]) as endpoint:
        assert await continued(endpoint.url, tries=3) == "there"
    assert len(endpoint.bodies) == 3
    assert endpoint.bodies[0] == endpoint.bodies[2]


@pytest.mark.parametrize(
    ("reply", "reason", "calls"),
    [
        (Reply(500, {}), "failed", 3),
        (Reply(429, {}), "overloaded", 3),
        (Reply(hang_up=True), "connection", 3),
        (Reply(silent=True), "timeout", 3),
        (Reply(401, {}), "refused", 1),
        (Reply(404, {}), "refused", 1),
        (Reply(302, {}, {"location": "http://127.0.0.1:1/"}), "refused", 1),
        (Reply(body=b"<html>"), "not_understood", 1),
        (Reply(body={"choices": []}), "not_understood", 1),
        (Reply(body={"choices": [{"text": None}]}), "not_understood", 1),
        (Reply(body=[1]), "not_understood", 1),
        (Reply(body=b'"' + b"x" * 2**20 + b'"'), "not_understood", 1),
    ],
)
async def test_every_failure_has_a_name(reply: Reply, reason: str, calls: int) -> None:
    assert await failure(lambda number: reply, timeout_s=0.05 if reply.silent else 5.0) == (reason, calls)


async def test_nobody_listening_is_a_connection_failure() -> None:
    with pytest.raises(UpstreamError, match="connection"):
        await continued("http://127.0.0.1:1/v1", tries=2)


async def test_an_endpoint_that_keeps_failing_is_left_alone() -> None:
    async with running_endpoint(lambda number: Reply(500, {})) as endpoint:
        upstream = Upstream(UpstreamOptions(url=endpoint.url, model="gpt", tries=1, at_once=2))
        reasons = []
        for _ in range(6):
            with pytest.raises(UpstreamError) as caught:
                await upstream.continued("Once", tokens=7, temperature=0.7, seed=3)
            reasons.append(caught.value.reason)
        await upstream.close()
    assert reasons == ["failed"] * 4 + ["paused"] * 2
    assert len(endpoint.bodies) == 4


def a_call(seconds: float | None = None) -> Call:
    return Call("/v1/text/detect", "http", "id-1", None if seconds is None else perf_counter() + seconds)


async def asked(url: str, regenerations: int, call: Call, **options: Any) -> Asked:
    box = BlackBox(UpstreamOptions(url=url, model="gpt", tries=1, **options), SPEC)
    try:
        return await box.ask(PARTS, regenerations, call, Work())
    finally:
        await box.close()


async def test_regenerations_are_told_apart_by_their_seeds() -> None:
    async with running_endpoint(lambda number: text("expected much of the agenda")) as endpoint:
        found = await asked(endpoint.url, 3, a_call())
    assert sorted(body["seed"] for body in endpoint.bodies) == [10, 11, 12]
    assert {body["prompt"] for body in endpoint.bodies} == {PARTS.prefix.rstrip()}
    assert {body["max_tokens"] for body in endpoint.bodies} == {len(WORDS) - PARTS.given}
    assert len(found.reading.regenerations) == 3
    assert not found.failures
    assert found.reading.scores().keys() == {"demo", "notebook", "formula"}


async def test_some_failures_leave_a_partial_result() -> None:
    async with running_endpoint(
        lambda number: Reply(500, {}) if number == 1 else text("much of the agenda")
    ) as endpoint:
        found = await asked(endpoint.url, 3, a_call(), at_once=1)
    assert len(found.reading.regenerations) == 2
    assert found.failures == {"failed": 1}
    assert found.reading.scores()["demo"] is not None


async def test_without_any_regeneration_there_is_no_score() -> None:
    async with running_endpoint(lambda number: Reply(403, {})) as endpoint:
        found = await asked(endpoint.url, 2, a_call())
    assert found.failures == {"refused": 2}
    assert set(found.reading.scores().values()) == {None}


async def test_what_is_late_is_counted_and_the_rest_is_used() -> None:
    async with running_endpoint(
        lambda number: Reply(silent=True) if number else text("much of the agenda")
    ) as endpoint:
        async with asyncio.timeout(20):
            found = await asked(endpoint.url, 2, a_call(1.5), timeout_s=60.0)
    assert len(found.reading.regenerations) == 1
    assert found.failures == {"timeout": 1}


def test_the_endpoint_comes_from_the_settings_alone(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    named = {"text_detect_upstream_url": "https://api.example/v1/", "text_detect_upstream_model": "gpt"}
    assert UpstreamOptions.of(Settings()) is None
    found = UpstreamOptions.of(Settings(**named, text_detect_upstream_key_file=str(key)))
    assert found is not None
    assert (found.url, found.model, found.key, found.tries) == ("https://api.example/v1", "gpt", "s3cret", 3)
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("url", ["ftp://api.example", "api.example", "file:///etc/passwd", "https://api.example"])
def test_an_address_that_is_none_is_refused_at_start(url: str) -> None:
    with pytest.raises(ValueError, match="text_detect_upstream_url"):
        Settings(text_detect_upstream_url=url)  # the last one lacks the model


def test_a_key_that_cannot_be_read_is_refused_by_the_settings_name(tmp_path: Path) -> None:
    two_lines = tmp_path / "key"
    two_lines.write_text("a\nb")
    for file in (tmp_path / "missing", two_lines):
        with pytest.raises(SettingsError, match="text_detect_upstream_key_file"):
            read_key(str(file))
