"""Detection over a real server: awkward texts, every way to ask, what is counted and what is not written down."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from awkward import PROSE, TEXTS, Awkward
from detecting import DETECTOR, answer, ask, only_text
from live_server import PRESSROOM, LiveServer, clean_environment
from pressroom_client import AsyncClient, Client, TooManyRows, UsageError
from refusals import check_http
from tiny_detector import numbered

from services.text_detect import ROUTE

INFER = f"/v2/models/{DETECTOR}/infer"


@pytest.mark.parametrize("text", TEXTS, ids=lambda one: one.name)
def test_awkward_texts_get_a_named_verdict_or_refusal(detecting: LiveServer, text: Awkward) -> None:
    body = json.dumps({"model": DETECTOR, "text": text.text})  # half characters as the escapes they come by
    response = detecting.post(ROUTE, content=body, headers={"content-type": "application/json"}, timeout=60)
    if isinstance(text.expected, str):
        assert response.status_code == 200, response.text
        found = only_text(response.json())
        assert found["verdict"] == text.expected
        assert (found["score"] is None) == (text.expected in ("too_short", "unsupported_script"))
    else:
        check_http(response, *text.expected)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"text": "caf\xe9"}', "invalid_json"),
        (b'{"text": "\xff\xfe\x00"}', "invalid_json"),
        (b'{"text": "\xed\xa0\x80"}', "invalid_json"),
        (b'{"text": "a\x00b"}', "invalid_json"),
        (b'{"text": "a', "invalid_json"),
    ],
)
def test_bytes_that_are_no_utf_8_are_no_json(detecting: LiveServer, raw: bytes, code: str) -> None:
    response = detecting.post(ROUTE, content=raw, headers={"content-type": "application/json"})
    check_http(response, 400, code, None)


def test_100_kb_of_prose_are_read_as_far_as_was_calibrated(detecting: LiveServer) -> None:
    long = f"{PROSE} " * 700
    found = only_text(answer(detecting, text=long, regenerations=2))
    assert len(long) > 100_000
    assert found["text"]["words"] == 40
    assert found["verdict"] == "inconclusive"
    assert [note["code"] for note in found["warnings"]] == ["text_truncated", "outside_calibration"]


def test_an_answer_names_all_it_rests_on(detecting: LiveServer) -> None:
    document = answer(detecting, texts=[{"id": "a", "text": PROSE}, numbered(PROSE)], return_regenerations=True)
    human, machine = document["texts"]
    assert (human["verdict"], machine["verdict"]) == ("human", "machine")
    assert (human["id"], machine["id"]) == ("a", None)
    threshold = human["threshold"]
    assert human["score"] <= min(threshold["human_at_most"], threshold["machine_above"])
    assert machine["score"] > max(threshold["human_at_most"], threshold["machine_above"])
    assert threshold["declared_false_positive_rate"] == 0.1
    assert threshold["id"].startswith("curvature-")
    assert [len(text["regenerations"]["texts"]) for text in document["texts"]] == [2, 2]
    assert PROSE[human["text"]["judged_from"] :].split() == PROSE.split()[len(PROSE.split()) // 2 :]
    assert [PROSE[one["start"] : one["end"]] for one in human["sentences"]] == PROSE.replace(". A", ".|A").split("|")
    assert document["generator"].keys() == {"name", "version", "digest", "tokenizer_digest", "upstream"}
    assert document["partial"] is False
    assert document["timings"]["inference_ms"] > 0
    assert document["batch_rows"] >= 2


def test_without_thresholds_a_detector_only_tells_the_score(detecting: LiveServer) -> None:
    found = only_text(answer(detecting, model=f"{DETECTOR}:1", text=PROSE))
    assert (found["verdict"], found["threshold"]) == ("inconclusive", None)
    assert found["score"] == only_text(answer(detecting, text=PROSE))["score"]
    assert [note["code"] for note in found["warnings"]] == ["not_calibrated"]


def test_every_protocol_tells_the_same(detecting: LiveServer) -> None:
    wanted = only_text(answer(detecting, text=PROSE))
    body = {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps({"text": PROSE})]}]}
    (output,) = detecting.post(INFER, json=body).json()["outputs"]
    assert only_text(json.loads(output["data"][0])) == wanted
    for address in (detecting.url, f"grpc://{detecting.grpc_address}"):
        with Client(address) as client:
            found = client.detect_text(PROSE, model=DETECTOR)
            assert (found.verdict, found.score) == (wanted["verdict"], wanted["score"])
            assert found.single.threshold is not None
            assert found.single.threshold.id == wanted["threshold"]["id"]


async def test_the_client_asks_about_several_texts_by_name(detecting: LiveServer) -> None:
    async with AsyncClient(detecting.url) as client:
        texts = {"one": PROSE, "two": "too short"}
        found = await client.detect_text(texts, model=DETECTOR, regenerations=0)
        assert [(text.id, text.statistic, text.regenerations) for text in found] == [
            ("one", "curvature", (0, 0)),
            ("two", "curvature", (0, 0)),
        ]
        (other,) = await client.detect_text([PROSE], model=DETECTOR, statistic="w_score", regenerations=3)
        assert (other.verdict, other.statistic) == ("inconclusive", "w_score")
        assert [note.code for note in other.warnings] == ["other_regenerations"]
        assert [text.verdict for text in found] == ["human", "too_short"]
        with pytest.raises(UsageError, match="2 texts"):
            _ = found.verdict
        with pytest.raises(TooManyRows):
            await client.detect_text(["x"] * 33, model=DETECTOR)
        with pytest.raises(UsageError):
            await client.detect_text([3], model=DETECTOR)  # type: ignore[list-item]


def test_the_operators_endpoint_is_asked_in_black_box_mode(detecting: LiveServer) -> None:
    """The endpoint is the server's own completions route: the same tiny model, by its words alone."""
    document = answer(detecting, text=PROSE, mode="black_box", return_regenerations=True)
    found = only_text(document)
    assert document["generator"]["upstream"] == "tiny-fp32"
    assert found["regenerations"]["failures"] == {}
    assert len(found["regenerations"]["texts"]) == 2
    assert found["scores"].keys() == {"demo", "notebook", "formula"}
    assert found["verdict"] == "inconclusive"  # thresholds were calibrated for white box


def test_no_request_names_an_endpoint(detecting: LiveServer) -> None:
    for name in ("upstream", "url", "base_url"):
        response = ask(detecting, text=PROSE, mode="black_box", **{name: "http://elsewhere"})
        check_http(response, 422, "invalid_request", name)


def test_the_command_line_asks_about_files(detecting: LiveServer, tmp_path: Any) -> None:
    (tmp_path / "prose.txt").write_text(PROSE, "utf-8")
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    command = [PRESSROOM, "text", "detect", "--url", detecting.url, "--model", DETECTOR]

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = clean_environment(detecting.home)
        return subprocess.run(
            [*command, *arguments],
            input=stdin,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    told = run("prose.txt", "-", stdin="short")
    assert told.returncode == 0, told.stderr
    assert "human" in told.stdout
    assert "too_short" in told.stdout
    (document,) = json.loads(run("prose.txt", "--json").stdout)
    assert document["texts"][0]["verdict"] == "human"
    refused = run("latin.txt")
    assert refused.returncode == 2
    assert "not UTF-8" in refused.stderr


def test_verdicts_are_counted_and_texts_are_not_written_down(detecting: LiveServer) -> None:
    name, labels = "pressroom_text_detect_verdicts_total", {"model": DETECTOR, "version": "2", "mode": "white_box"}
    secret = PROSE.replace("chairman", "Zanzibar")
    before = detecting.metric(name, verdict="human", **labels)
    regenerated = detecting.metric("pressroom_text_detect_regenerations_total", **labels)
    answer(detecting, text=secret)
    assert detecting.metric(name, verdict="human", **labels) == before + 1
    assert detecting.metric("pressroom_text_detect_regenerations_total", **labels) > regenerated
    assert detecting.metric("pressroom_text_detect_upstream_failures_total", model=DETECTOR) == 0
    assert "Zanzibar" not in detecting.log.read_text()
