"""Marked text through a real server: over every protocol, from every route, and what it says when it is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from live_server import LiveServer, eventually
from marked_server import (
    BODY,
    DECODE,
    GENERATE,
    LLM,
    SCHEME,
    SECRETS,
    TOKENS,
    VERIFY,
    answer,
    completed,
    error,
    generate,
    read,
)
from pressroom_client import AsyncClient, Client, InvalidRequest


@pytest.mark.parametrize("message", [0, 5, 200, 255])
def test_a_message_comes_back_from_the_text(marks: LiveServer, message: int) -> None:
    marked = generate(marks, message=message)
    assert (marked["segments"], marked["segments_embedded"], marked["fully_embedded"]) == (1, 1, True)
    assert (marked["tokens"], marked["key_id"], marked["delta"]) == (TOKENS, "new", 6.0)
    assert marked["generator"]["name"] == LLM
    found = read(marks, marked["text"])
    assert (found["verdict"], found["message"], found["bits"]) == ("marked", message, f"{message:08b}")
    assert (found["key_id"], found["keys_tried"], found["tokens"]) == ("new", 2, TOKENS)
    [segment] = found["segments"]
    assert segment["candidates"][0] == {"message": message, "count": segment["count"]}
    assert segment["scored_tokens"] == TOKENS - 1
    assert found["p_value"] == pytest.approx(1 - (1 - segment["p_value"]) ** 2)


def test_unmarked_text_of_the_same_model_is_not_called_marked(marks: LiveServer) -> None:
    found = read(marks, completed(marks, seed=4))
    assert found["verdict"] == "not_marked"
    assert (found["message"], found["bits"], found["payload"]) == (None, None, None)


def test_completions_and_chats_take_the_watermark_as_one_more_field(marks: LiveServer) -> None:
    asked = {**BODY, "model": LLM, "watermark": {"message": 77}, "seed": 3}
    assert read(marks, completed(marks, watermark={"message": 77}, seed=3))["message"] == 77
    del asked["prompt"]
    chat = answer(marks, "/v1/chat/completions", **asked, messages=[{"role": "user", "content": "Hello"}])
    assert read(marks, chat["choices"][0]["message"]["content"])["message"] == 77
    streamed = marks.post("/v1/completions", json={**asked, "prompt": "Hello", "stream": True})
    events = [json.loads(line[6:]) for line in streamed.text.split("\n\n") if line.startswith("data: {")]
    assert read(marks, "".join(event["choices"][0]["text"] for event in events))["message"] == 77


def test_several_answers_carry_the_message_each(marks: LiveServer) -> None:
    asked = {**BODY, "model": LLM, "watermark": {"message": 9}, "seed": 3, "n": 2}
    texts = [choice["text"] for choice in answer(marks, "/v1/completions", **asked)["choices"]]
    assert texts[0] != texts[1]
    results = answer(marks, DECODE, texts=texts)["results"]
    assert [one["message"] for one in results] == [9, 9]


def test_a_message_of_two_segments_comes_back_whole(marks: LiveServer) -> None:
    regex, bits = "[A-Z0-9]{180}", "0110100111000011"
    asked = {"prompt": "Hello", "guided_regex": regex, "watermark": {"bits": bits}, "seed": 8}
    marked = answer(marks, GENERATE, **asked)  # max_tokens is what the message needs
    assert (marked["tokens"], marked["segments"], marked["fully_embedded"]) == (1 + 2 * 72, 2, True)
    found = read(marks, marked["text"], message_bits=16)
    assert (found["message"], found["bits"]) == (int(bits, 2), bits)
    assert [one["verdict"] for one in found["segments"]] == ["marked", "marked"]


def test_what_each_token_says_adds_up_to_the_reading(marks: LiveServer) -> None:
    text = answer(marks, GENERATE, prompt="Hello", guided_regex="[A-Z0-9]{180}", watermark={"bits": "01" * 8}, seed=8)[
        "text"
    ]
    assert "marks" not in read(marks, text, message_bits=16)
    found = read(marks, "é" + text, message_bits=16, return_marks=True)
    told = found["marks"]
    assert ["é" + text, len(told)] == [
        "".join(("é" + text)[one["start"] : one["end"]] for one in told[1:]),
        found["tokens"],
    ]
    assert [told[0][name] for name in ("segment", "available", "counted")] == [None, None, False]
    for number, segment in enumerate(found["segments"]):
        own = [one for one in told if one["segment"] == number]
        assert (len(own), sum(one["counted"] for one in own)) == (segment["scored_tokens"], segment["unique_tokens"])
        assert sum(one["available"] for one in own if one["counted"]) == segment["count"]


def test_an_older_key_is_found_and_named_and_can_be_asked_for(marks: LiveServer) -> None:
    marked = generate(marks, message=31, key_id="old")
    assert marked["key_id"] == "old"
    found = read(marks, marked["text"])
    assert (found["verdict"], found["message"], found["key_id"]) == ("marked", 31, "old")
    alone = read(marks, marked["text"], key_id="new")
    assert (alone["verdict"] != "marked", alone["keys_tried"]) == (True, 1)


def test_a_label_is_registered_and_resolved(marks: LiveServer) -> None:
    first, again = generate(marks, label="spring leaflet"), generate(marks, label="spring leaflet")
    readings = [read(marks, one["text"], candidates="registered") for one in (first, again)]
    assert readings[0]["message"] == readings[1]["message"]
    assert readings[0]["payload"]["label"] == "spring leaflet"
    assert set(readings[0]["payload"]) == {"label", "registered"}


def test_expected_messages_are_checked_one_by_one(marks: LiveServer) -> None:
    text = generate(marks, message=200)["text"]
    generate(marks, label="another leaflet")
    expected = [{"message": 3}, {"message": 200}, {"label": "another leaflet"}]
    [found] = answer(marks, VERIFY, text=text, expected=expected)["results"]
    assert [one["expected"] for one in found["checks"]] == expected
    assert found["checks"][1]["verdict"] == found["verdict"] == "marked"
    assert found["checks"][0]["verdict"] == "not_marked"
    assert found["p_value"] == min(one["p_value"] for one in found["checks"])
    unknown = error(marks, VERIFY, text=text, expected=[{"label": "never seen"}])
    assert (unknown["code"], unknown["field"]) == ("invalid_request", "expected[0].label")


def test_a_few_words_are_enough_to_check_and_too_few_to_read(marks: LiveServer) -> None:
    text = generate(marks, message=200)["text"][:11]
    assert read(marks, text)["verdict"] == "too_short"
    [found] = answer(marks, VERIFY, text=text, expected=[{"message": 200}])["results"]
    assert found["verdict"] == "marked"
    assert found["checks"][0]["count"] == found["checks"][0]["unique_tokens"]


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        ({"watermark": {"message": 1}, "max_tokens": 72}, "watermark", "1 + 1 segments x 72 = 73 tokens"),
        ({"watermark": {"bits": "01" * 9}, "max_tokens": 200}, "watermark", "1 + 3 segments x 72 = 217 tokens"),
        ({"watermark": {"message": 256}}, "watermark", "does not fit 8 bits"),
        ({"watermark": {"message": 2**53}}, "watermark.message", "from 0 to"),
        ({"watermark": {"message": True}}, "watermark.message", "true"),
        ({"watermark": {"bits": "012"}}, "watermark.bits", "characters 0 and 1"),
        ({"watermark": {"label": "a\nb"}}, "watermark.label", "printable"),
        ({"watermark": {"message": 1, "bits": "01"}}, "watermark", "message and bits"),
        ({"watermark": {}}, "watermark", "none of them"),
        ({"watermark": 7}, "watermark", "an object"),
        ({"watermark": {"message": 1, "key_id": "x"}}, "watermark.key_id", "no key 'x'"),
        ({"watermark": {"message": 1, "delta": 0}}, "watermark.delta", "above 0"),
        ({"watermark": {"message": 1, "strength": 2}}, "watermark.strength", "unknown field"),
        ({}, "watermark", "an object"),
        ({"watermark": {"message": 1}, "n": 2}, "n", "one answer"),
        ({"watermark": {"message": 1}, "stream": True}, "stream", "one answer"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_its_field(
    marks: LiveServer, asked: dict[str, object], field: str, said: str
) -> None:
    found = error(marks, GENERATE, **{**BODY, **asked})
    assert (found["status"], found["field"]) == (422, field)
    assert said in found["message"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "text"),
        ({"text": "a", "texts": ["b"]}, "text"),
        ({"text": 5}, "text"),
        ({"texts": []}, "texts"),
        ({"texts": ["a", None]}, "texts[1]"),
        ({"texts": ["a"] * 65}, "texts"),
        ({"text": "a", "message_bits": 0}, "message_bits"),
        ({"text": "a", "candidates": [256]}, "candidates[0]"),
        ({"text": "a", "candidates": []}, "candidates"),
        ({"text": "a", "candidates": [1], "message_bits": 16}, "message_bits"),
        ({"text": "a", "top": 99}, "top"),
        ({"text": "a", "key_id": "?"}, "key_id"),
        ({"text": "a", "delta": 2}, "delta"),
        ({"text": "word " * 3000}, "text"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(marks: LiveServer, asked: dict[str, object], field: str) -> None:
    found = error(marks, DECODE, **asked)
    assert (found["status"], found["field"]) == (422, field)


def test_every_protocol_carries_all_three_tasks(marks: LiveServer) -> None:
    with Client(f"grpc://{marks.grpc_address}") as grpc, Client(marks.url) as http:
        marked = grpc.generate(
            "Hello", watermark=40, model=SCHEME, max_tokens=TOKENS, seed=6, extra={"guided_regex": BODY["guided_regex"]}
        )
        reading = grpc.decode_watermark(marked.text, model=SCHEME).reading
        assert (reading.message, reading.marks) == (40, None)
        assert grpc.verify_watermark(marked.text, 40, model=SCHEME).verification.verdict == "marked"
        element = np.array([json.dumps({"text": marked.text}).encode()], dtype=object)
        raw = http.infer(SCHEME, {"request": element}).outputs["response"][0]
        assert json.loads(raw)["results"][0]["message"] == 40


async def test_the_awaited_client_answers_the_same(marks: LiveServer) -> None:
    async with AsyncClient(marks.url) as client:
        marked = await client.generate("Hello", watermark={"message": 41}, extra=dict(BODY, prompt="Hello"), seed=6)
        readings = await client.decode_watermark([marked.text, "short"], top=1, return_marks=True)
        assert [one.verdict for one in readings] == ["marked", "too_short"]
        assert readings.readings[0].segments[0].candidates[0].message == 41
        marks_told = readings.readings[0].marks
        assert marks_told is not None
        fitting = sum(one.counted and bool(one.available) for one in marks_told)
        assert fitting == readings.readings[0].segments[0].count
        checked = await client.verify_watermark(marked.text, [40, 41])
        assert [one.verdict for one in checked.verification.checks] == ["not_marked", "marked"]
        with pytest.raises(InvalidRequest) as refused:
            await client.generate("Hello", watermark=1, max_tokens=10)
        assert refused.value.field == "watermark"


def test_the_list_of_models_says_what_a_scheme_needs(marks: LiveServer) -> None:
    entry = marks.get(f"/v1/models/{SCHEME}").json()
    assert (entry["family"], entry["tokens_for_one_segment"], entry["declared_rate"]) == ("watermark", 73, 0.01)
    assert entry["settings"]["generator"]["name"] == LLM


def test_metrics_count_segments_and_verdicts(marks: LiveServer) -> None:
    def embedded() -> float:
        return marks.metric("pressroom_watermark_segments_total", model=SCHEME)

    def marked() -> float:
        return marks.metric("pressroom_watermark_readings_total", model=SCHEME, verdict="marked")

    before = embedded(), marked()
    read(marks, completed(marks, watermark={"message": 3}, seed=2))
    eventually(lambda: (embedded(), marked()) == (before[0] + 1, before[1] + 1), "one segment, one reading more")
    assert marks.metric("pressroom_watermark_read_seconds_count", model=SCHEME) > 0


def test_neither_texts_nor_messages_nor_keys_are_written_down(marks: LiveServer, key_file: Path) -> None:
    text = generate(marks, message=173, key_id="old")["text"]
    read(marks, text)
    error(marks, GENERATE, **BODY, watermark={"message": 7_654_321})
    written = marks.log.read_text() + marks.get("/metrics").text
    for secret in (text, text[:20], "7654321", *SECRETS.values(), key_file.read_text()):
        assert secret not in written
    assert "/v1/watermark/generate" in written
