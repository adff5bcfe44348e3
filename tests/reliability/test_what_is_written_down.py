"""Traces, access log and payload log of running servers: complete where asked for, absent where not, never too much."""

from __future__ import annotations

import json
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import etth1
import pytest
from asking import INFER, binary_body, forecast_message, refusal_of, rpc, rpc_refusal
from collector import Collector, attributes, milliseconds, running_collector
from live_server import LiveServer, StartServer, eventually, free_ports
from refusals import infer_message
from tiny_server import A, running_tiny

CARD = etth1.CARD
REQUEST = etth1.request(model=CARD)
MARK = 12345.6875  # a value no other request has
ROUNDING_MS = 0.001  # answers give milliseconds to four places


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as found:
        yield found


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("payloads") / "payloads.jsonl"


@pytest.fixture(scope="module")
def open_book(start_server: StartServer, collector: Collector, payloads: Path) -> LiveServer:
    """A server that writes down everything it can."""
    environment = {
        "PRESSROOM_OTLP_ENDPOINT": collector.url,
        "PRESSROOM_ACCESS_LOG": "all",
        "PRESSROOM_PAYLOAD_LOG": str(payloads),
        "PRESSROOM_PAYLOAD_LOG_FRACTION": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    return start_server("--models", CARD, environment=environment)


def traceparent() -> tuple[str, str, str]:
    """A caller's trace id and span id, and the header that says so."""
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-01"


def access_entries(server: LiveServer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]


def entry_of(server: LiveServer, request_id: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        return next((e for e in access_entries(server) if e["request_id"] == request_id), None)

    return eventually(found, f"{request_id} is in the access log")  # type: ignore[return-value]


def check_spans(spans: dict[str, Any], route: str, parent: str, timings: dict[str, float]) -> None:
    """The request with queue and inference inside; their lengths are the answer's timings."""
    assert spans.keys() == {route, "queue", "inference"}
    request = spans[route]
    assert request.parent_span_id.hex() == parent
    assert {spans[name].parent_span_id for name in ("queue", "inference")} == {request.span_id}
    expected = {route: timings["total_ms"], "queue": timings["queue_ms"], "inference": timings["inference_ms"]}
    assert {name: milliseconds(span) for name, span in spans.items()} == pytest.approx(expected, abs=ROUNDING_MS)
    assert request.start_time_unix_nano <= spans["queue"].start_time_unix_nano
    assert spans["inference"].end_time_unix_nano <= request.end_time_unix_nano
    assert attributes(request)["pressroom.model"] == f"{CARD}:1"
    assert attributes(request)["pressroom.code"] == "ok"


def test_an_http_request_is_a_part_of_the_caller_s_trace(open_book: LiveServer, collector: Collector) -> None:
    trace, parent, header = traceparent()
    answer = open_book.post(etth1.FORECAST, json=REQUEST, headers={"traceparent": header}).json()
    eventually(lambda: len(collector.of_trace(trace)) == 3, "three spans have come")
    check_spans(collector.of_trace(trace), etth1.FORECAST, parent, answer["timings"])
    assert collector.paths == {"/v1/traces"}


def test_a_grpc_call_is_a_part_of_the_caller_s_trace(open_book: LiveServer, collector: Collector) -> None:
    trace, parent, header = traceparent()
    answer = rpc(open_book, "ModelInfer", forecast_message(), metadata=[("traceparent", header)])
    eventually(lambda: len(collector.of_trace(trace)) == 3, "three spans have come")
    stated = {key: answer.parameters[key].double_param for key in ("queue_ms", "inference_ms", "total_ms")}
    check_spans(collector.of_trace(trace), INFER.format("{name}"), parent, stated)


def test_without_a_caller_s_trace_a_request_starts_its_own(open_book: LiveServer, collector: Collector) -> None:
    open_book.post(etth1.FORECAST, json=REQUEST, headers={"X-Request-Id": "own-trace"})
    spans = eventually(lambda: collector.of_request("own-trace"), "its span has come")
    assert spans[etth1.FORECAST].parent_span_id == b""


def test_a_caller_who_does_not_want_a_trace_gets_none(open_book: LiveServer, collector: Collector) -> None:
    trace, _, header = traceparent()
    open_book.post(etth1.FORECAST, json=REQUEST, headers={"traceparent": header[:-2] + "00"})
    open_book.post(etth1.FORECAST, json=REQUEST, headers={"X-Request-Id": "after-unsampled"})
    eventually(lambda: collector.of_request("after-unsampled"), "a later span has come")
    assert collector.of_trace(trace) == {}


def test_a_refusal_is_an_error_span_with_its_code(open_book: LiveServer, collector: Collector) -> None:
    trace, _, header = traceparent()
    open_book.post(etth1.FORECAST, json={"model": "nothing"}, headers={"traceparent": header})
    (span,) = eventually(lambda: collector.of_trace(trace), "its span has come").values()
    assert (attributes(span)["pressroom.code"], span.status.code) == ("model_not_found", 2)


def test_the_access_log_has_one_line_a_request_with_the_answer_s_own_numbers(open_book: LiveServer) -> None:
    answer = open_book.post(etth1.FORECAST, json=REQUEST, headers={"X-Request-Id": "logged"}).json()
    entry = entry_of(open_book, "logged")
    stated = {"protocol": "http", "route": etth1.FORECAST, "model": f"{CARD}:1", "code": "ok", "batch_rows": 1}
    assert stated.items() <= entry.items()
    assert answer["timings"].items() <= entry.items()
    assert [e["request_id"] for e in access_entries(open_book)].count("logged") == 1


def test_a_grpc_call_and_refusals_of_both_protocols_have_their_lines(open_book: LiveServer) -> None:
    rpc(open_book, "ModelInfer", forecast_message(), metadata=[("x-request-id", "grpc-ok")])
    rpc_refusal(open_book, "ModelInfer", infer_message("nothing"), metadata=[("x-request-id", "grpc-bad")])
    open_book.post(etth1.FORECAST, content=b"{", headers={"X-Request-Id": "http-bad"})
    found = {i: entry_of(open_book, i) for i in ("grpc-ok", "grpc-bad", "http-bad")}
    assert {i: (e["protocol"], e["code"]) for i, e in found.items()} == {
        "grpc-ok": ("grpc", "ok"),
        "grpc-bad": ("grpc", "model_not_found"),
        "http-bad": ("http", "invalid_json"),
    }


def test_the_access_log_holds_no_payload_and_the_payload_log_no_identifier(
    open_book: LiveServer, payloads: Path
) -> None:
    marked = etth1.series(id="ward-7-bed-3")
    marked["values"]["OT"][4] = MARK
    headers = {"X-Request-Id": "marked"}
    answer = open_book.post(etth1.FORECAST, json=etth1.request(marked, model=CARD), headers=headers).json()
    assert answer["series"][0]["id"] == "ward-7-bed-3"
    entry_of(open_book, "marked")
    assert str(MARK) not in open_book.log.read_text()
    assert "ward-7" not in open_book.log.read_text()
    (line,) = [line for line in payloads.read_text().splitlines() if '"marked"' in line]
    written = json.loads(line)
    assert written["request"]["series"][0]["values"]["OT"][4] == MARK
    assert written["answer"]["series"][0]["values"] == answer["series"][0]["values"]
    assert written["request"]["series"][0]["id"] == written["answer"]["series"][0]["id"] == "[redacted]"
    assert "ward-7" not in payloads.read_text()


def test_the_payload_log_is_for_its_owner_only(open_book: LiveServer, payloads: Path) -> None:
    assert stat.S_IMODE(payloads.stat().st_mode) == 0o600


def test_line_breaks_in_a_request_id_cannot_forge_a_log_line(open_book: LiveServer) -> None:
    body, headers = binary_body(etth1.history())
    sent = {**headers, "X-Request-Id": 'x","code":"forged'}
    answer = open_book.post(INFER.format(CARD), content=body, headers=sent)
    assert answer.headers["x-request-id"] == sent["X-Request-Id"]
    assert entry_of(open_book, sent["X-Request-Id"])["code"] == "ok"
    message, spaced = forecast_message(), [("x-request-id", "one two")]
    rpc(open_book, "ModelInfer", message, metadata=spaced)
    assert not [e for e in access_entries(open_book) if e["code"] == "forged" or " " in e["request_id"]]


def test_by_default_refusals_are_logged_and_answers_are_not(server: LiveServer) -> None:
    assert server.post(etth1.FORECAST, json=REQUEST, headers={"X-Request-Id": "quiet-ok"}).status_code == 200
    refusal_of(server.post(etth1.FORECAST, json={"model": "nothing"}, headers={"X-Request-Id": "quiet-bad"}))
    assert entry_of(server, "quiet-bad")["code"] == "model_not_found"
    assert {e["code"] for e in access_entries(server)}.isdisjoint({"ok"})


def test_a_server_told_nothing_sends_no_span_and_one_told_off_logs_no_request(
    tiny_home: Path, tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the environment names a collector for other programs."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with running_tiny(tiny_home, tmp_path, access_log="off") as tiny:
        answer = tiny.ask(1.0, headers={"X-Request-Id": "untold"}).json()
        assert (answer["y"], answer["version"]) == ([3.0], "2")  # the newest, as nobody named one
        assert tiny.ask(1.0, model="nothing").status_code == 404
        assert tiny.server.stop() == 0  # what it had to send is sent now
        assert access_entries(tiny.server) == []
    assert collector.of_request("untold") == {}


def test_a_collector_that_is_away_costs_no_request_and_does_not_hold_up_the_stop(
    tiny_home: Path, tmp_path: Path
) -> None:
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    with running_tiny(tiny_home, tmp_path, otlp_endpoint=nowhere) as tiny:
        assert {tiny.ask(100.0 + i, model=A).status_code for i in range(50)} == {200}
        began = time.monotonic()
        tiny.server.terminate()
        assert tiny.server.wait(20) == 0
    print(f"\nstopped {time.monotonic() - began:.1f} s after the signal, with spans nobody takes")
