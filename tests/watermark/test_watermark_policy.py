"""A server whose policy marks every answer: no request can leave the mark out, change it, or wear it thin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from live_server import LiveServer, StartServer, eventually
from marked_server import BODY, DECODE, GENERATE, LLM, SCHEME, answer, completed, error
from pressroom_client import Client

from services.marking.marking import bucket


def payload(server: LiveServer, text: str) -> dict[str, str]:
    """What the mark of a text stands for; asked for without the server's limit on readings."""
    [check] = answer(server, DECODE, text=text, candidates="registered")["results"]
    assert check["verdict"] == "marked"
    found: dict[str, str] = check["payload"]
    return found


def test_an_answer_nobody_asked_to_mark_says_what_made_it(always: LiveServer) -> None:
    found = payload(always, completed(always, seed=1))
    served = always.get(f"/v1/models/{LLM}").json()
    assert (found["model"], found["version"], found["digest"]) == (LLM, "1", served["digest"])
    assert found["bucket"].endswith("T00:00+00:00")  # the day
    assert "receipt_digest" not in found  # the model was not pruned


def test_high_temperatures_do_not_wear_the_mark_thin(always: LiveServer) -> None:
    assert payload(always, completed(always, seed=2, temperature=2))["model"] == LLM


def test_chats_streams_and_tensors_are_marked_too(always: LiveServer) -> None:
    talk = {**BODY, "model": LLM, "messages": [{"role": "user", "content": "Hello"}], "stream": True, "seed": 3}
    del talk["prompt"]
    response = always.post("/v1/chat/completions", json=talk)
    events = [json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: {")]
    streamed = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
    assert payload(always, streamed)["model"] == LLM
    element = np.array([json.dumps({**BODY, "seed": 4}).encode()], dtype=object)
    with Client(f"grpc://{always.grpc_address}") as client:
        raw = client.infer(LLM, {"request": element}).outputs["response"][0]
    assert payload(always, json.loads(raw)["choices"][0]["text"])["model"] == LLM


@pytest.mark.parametrize("wish", [{"message": 1}, {}, False, {"delta": 0.001}, "off"])
def test_whatever_a_request_says_about_the_mark_is_refused(always: LiveServer, wish: object) -> None:
    for path, model in (("/v1/completions", LLM), (GENERATE, SCHEME)):
        found = error(always, path, **BODY, model=model, watermark=wish)
        assert (found["status"], found["code"], found["field"]) == (422, "not_supported", "watermark")
        assert found["hint"] == "leave the field away"


def test_null_is_no_way_out(always: LiveServer) -> None:
    assert payload(always, completed(always, seed=5, watermark=None))["model"] == LLM


def test_generate_embeds_the_servers_message_too(always: LiveServer) -> None:
    marked = answer(always, GENERATE, **BODY, seed=6)
    assert marked["fully_embedded"]
    assert payload(always, marked["text"])["model"] == LLM


def test_readings_beyond_the_limit_are_refused_with_the_time_to_wait(always: LiveServer) -> None:
    while (response := always.post(DECODE, json={"text": "a few words"})).status_code == 200:
        pass
    found = response.json()["error"]
    assert (response.status_code, found["code"]) == (429, "rate_limited")
    assert 0 < int(response.headers["retry-after"]) <= 60
    assert completed(always, seed=7)  # generating goes on


def test_a_policy_that_cannot_be_kept_keeps_the_language_model_out(start_marks: StartServer, key_file: Path) -> None:
    settings = {
        "PRESSROOM_WATERMARK_KEYS_FILE": str(key_file),
        "PRESSROOM_WATERMARK_POLICY": "always",
        "PRESSROOM_WATERMARK_MESSAGE": "300",  # of eight bits
        "PRESSROOM_WATERMARK_SCHEME": SCHEME,
        "PRESSROOM_MODELS": LLM,
    }
    server = start_marks(environment=settings, ready=False)
    eventually(lambda: "does not fit the scheme's 8 bits" in server.get("/readyz").text, "the reason is told")
    assert server.post("/v1/completions", json={**BODY, "model": LLM}).status_code == 503


def test_the_time_bucket_is_the_beginning_of_its_hours() -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 11, 30, 17, 5, 9, tzinfo=UTC)
    assert bucket(now, 24) == "2026-11-30T00:00+00:00"
    assert bucket(now, 6) == "2026-11-30T12:00+00:00"
    assert bucket(now, 1) == "2026-11-30T17:00+00:00"
