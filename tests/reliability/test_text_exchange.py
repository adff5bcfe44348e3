"""A language model is exchanged, unloaded and drained while it speaks: who has begun is heard out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from keyring import KeyRing
from live_server import LiveServer, running_server
from text_callers import Heard, listen

MODEL = "tiny-fp32"
LONG = {"model": MODEL, "prompt": "a long answer", "max_tokens": 200, "ignore_eos": True, "temperature": 0}
LOAD, UNLOAD = f"/v2/repository/models/{MODEL}/load", f"/v2/repository/models/{MODEL}/unload"


@pytest.fixture
def guarded(tiny_llm_home: Path, keys: KeyRing, tmp_path: Path):
    """A server of one model and one slot, so that what waits behind a speaker is known."""
    environment = {"PRESSROOM_MODELS": MODEL, "PRESSROOM_LLM_SLOTS": "1"}
    log = tmp_path / "server.log"
    with running_server(tiny_llm_home, log, "--keys-file", str(keys.path), environment=environment) as server:
        yield server


async def speak_while(server: LiveServer, keys: KeyRing, path: str, callers: int) -> list[Heard]:
    """Streams of several callers; once the first of them is heard, the operator's command."""
    bearer = keys.bearer("infer")["Authorization"]
    first = asyncio.Event()
    speaking = [asyncio.create_task(listen(server.port, LONG, bearer=bearer, begun=first)) for _ in range(callers)]
    await first.wait()
    response = await asyncio.to_thread(server.post, path, json={}, headers=keys.bearer("admin"))
    assert response.status_code == 200, response.text
    return await asyncio.gather(*speaking)


def test_an_exchange_in_mid_answer_is_not_noticed(guarded: LiveServer, keys: KeyRing) -> None:
    heard = asyncio.run(speak_while(guarded, keys, LOAD, callers=6))
    assert all(one.complete for one in heard)
    assert len({tuple(one.ids) for one in heard}) == 1
    assert len(heard[0].ids) == 200
    text = guarded.get("/metrics", headers=keys.bearer("metrics")).text
    assert f'pressroom_llm_slots{{model="{MODEL}",version="1"}} 1.0' in text, "the old one's gauges give way"
    again = asyncio.run(listen(guarded.port, LONG, bearer=keys.bearer("infer")["Authorization"]))
    assert again.ids == heard[0].ids


def test_an_unloaded_model_finishes_its_answers_and_takes_no_more(guarded: LiveServer, keys: KeyRing) -> None:
    heard = asyncio.run(speak_while(guarded, keys, UNLOAD, callers=4))
    assert all(one.complete for one in heard)
    refused = guarded.post("/v1/completions", json=LONG, headers=keys.bearer("infer"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")


def test_a_key_without_the_scope_gets_no_text(guarded: LiveServer, keys: KeyRing) -> None:
    refused = guarded.post("/v1/chat/completions", json={}, headers=keys.bearer("metrics"))
    assert refused.status_code == 403
    assert refused.json()["error"]["type"] == "permission_error"
    unknown = guarded.post("/v1/chat/completions", json={})
    assert unknown.status_code == 401
    assert unknown.json()["error"]["type"] == "authentication_error"


def test_a_stopping_server_finishes_its_streams(guarded: LiveServer, keys: KeyRing) -> None:
    async def speak() -> list[Heard]:
        bearer, first = keys.bearer("infer")["Authorization"], asyncio.Event()
        speaking = [asyncio.create_task(listen(guarded.port, LONG, bearer=bearer, begun=first)) for _ in range(3)]
        await first.wait()
        guarded.terminate()
        return await asyncio.gather(*speaking)

    heard = asyncio.run(speak())
    assert guarded.wait() == 0
    assert any(one.complete for one in heard)
    assert all(one.complete or not one.ids for one in heard), "who has begun is heard out"
