"""Awkward texts get a verdict or a named refusal, never a failure, and never a confident verdict on too little."""

from __future__ import annotations

import pytest
from awkward_texts import AWKWARD
from live_server import LiveServer
from marked_server import DECODE, VERIFY, answer, read

FEW = 16  # pairs of tokens below which eight bits cannot be told


def test_there_are_forty_of_them() -> None:
    assert len(AWKWARD) >= 40
    assert len(set(AWKWARD.values())) == len(AWKWARD)


@pytest.fixture(scope="module")
def readings(marks: LiveServer) -> dict[str, dict[str, object]]:
    found = answer(marks, DECODE, texts=list(AWKWARD.values()))["results"]
    return dict(zip(AWKWARD, found, strict=True))


@pytest.mark.parametrize("name", AWKWARD)
def test_a_text_that_was_not_marked_here_is_not_called_marked(
    readings: dict[str, dict[str, object]], name: str
) -> None:
    """At a declared rate of one in a hundred, none of these forty-six is: what repeats itself votes once."""
    found = readings[name]
    assert found["verdict"] in ("not_marked", "inconclusive", "too_short")
    assert found["message"] is None


@pytest.mark.parametrize("name", AWKWARD)
def test_too_little_is_called_too_short(readings: dict[str, dict[str, object]], name: str) -> None:
    segments: list[dict[str, int]] = readings[name]["segments"]  # type: ignore[assignment]
    if segments[0]["unique_tokens"] < FEW / 2:
        assert readings[name]["verdict"] == "too_short"


@pytest.mark.parametrize("name", ["empty", "one blank", "one letter", "one digit", "a long word"])
def test_nothing_to_vote_is_too_short_for_expected_messages_as_well(marks: LiveServer, name: str) -> None:
    [found] = answer(marks, VERIFY, text=AWKWARD[name], expected=[{"message": 3}])["results"]
    assert found["verdict"] == "too_short"


def test_100_kilobytes_are_refused_with_their_length(marks: LiveServer) -> None:
    response = marks.post(DECODE, json={"text": "harbour town " * 8000})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "invalid_request", "text")
    assert "tokens, at most 2048 are read" in error["message"]


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b'{"text": "ship\xff\xfe"}', 400, "invalid_json"),
        (b'{"text": "\\ud800 ship"}', 400, "invalid_json"),
        (b'{"text": null}', 422, "invalid_request"),
        (b'{"texts": {"a": "b"}}', 422, "invalid_request"),
        (b'["ship"]', 422, "invalid_request"),
        (b"", 400, "invalid_json"),
    ],
)
def test_what_is_no_text_is_refused(marks: LiveServer, raw: bytes, status: int, code: str) -> None:
    response = marks.post(DECODE, content=raw, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_a_marked_text_among_them_is_still_found(marks: LiveServer) -> None:
    from marked_server import generate

    text = generate(marks, message=90)["text"]
    assert read(marks, f"{AWKWARD['emoji']}\n{text}\n{AWKWARD['Arabic']}")["message"] == 90
