"""Canaries in every field of a record: no log, error, trace, metric, payload file or crash report may hold one."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from certificates import make_certificates
from collector import Collector, running_collector
from live_server import PRESSROOM, LiveServer, eventually, running_server
from refusals import check_grpc, check_http, grpc_infer, infer_message
from test_tls import running_tls
from tutorial_records import MODEL, ROUTE, TASK, record, request

CANARIES = ("CANARY", "73917391", "1987-06-05", "04:03:02.123", "1911-11-11", "1999-09-09")
SPIES = {"PYTHONASYNCIODEBUG": "1", "PYTHONFAULTHANDLER": "1", "BENTOML_DEBUG": "True", "PRESSROOM_ACCESS_LOG": "all"}

Json = dict[str, Any]


def canary_event(**changed: Any) -> Json:
    event = {"time": "1987-06-05T04:03:02.123", "code": "CANARY/code", "numeric_value": 73917391.25}
    return event | {"text_value": "CANARY text", "unit": "CANARY unit"} | changed


def canary_request(*events: Any, **changed: Any) -> Json:
    patient = {"id": "CANARY-id", "birth": "1911-11-11", "events": [*record()["events"][1:], canary_event(), *events]}
    return request(patient, prediction_time="1999-09-09T09:09:09", **changed)


GOOD = canary_request()
BAD: list[tuple[Any, str]] = [
    (canary_request(canary_event(numeric_value="CANARY")), "value_not_numeric"),
    (canary_request(canary_event(time="CANARY")), "timestamps_invalid"),
    (canary_request(canary_event(time="1911-11-10")), "event_before_birth"),
    (canary_request(canary_event(code="CANARY" * 200)), "invalid_request"),
    (canary_request(canary_event(CANARY="CANARY")), "invalid_request"),
    (canary_request(["CANARY"]), "invalid_request"),
    (canary_request(tasks=["CANARY"]), "task_not_found"),
    (canary_request(horizons_days=["CANARY"]), "value_not_numeric"),
    (canary_request(canary_event(code="MEDS_DEATH")), "prediction_after_death"),
    (canary_request() | {"CANARY": "CANARY"}, "invalid_request"),
    (canary_request() | {"prediction_time": "CANARY"}, "timestamps_invalid"),
    (canary_request() | {"patients": "CANARY"}, "invalid_request"),
    ({k: v for k, v in GOOD.items() if k != "patients"} | {"events_parquet": "CANARY"}, "parquet_invalid"),
]


def canary_file() -> bytes:
    """A parquet file whose times are texts: pyarrow's own complaint would quote them."""
    columns = {"subject_id": [1], "time": ["CANARY 1987-06-05"], "code": ["CANARY"], "numeric_value": ["73917391"]}
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as found:
        yield found


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ehr-payloads") / "payloads.jsonl"


@pytest.fixture(scope="module")
def watched(
    ehr_home: Path, collector: Collector, payloads: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    """A server that writes down everything it can, debugging on."""
    environment = SPIES | {
        "PRESSROOM_OTLP_ENDPOINT": collector.url,
        "PRESSROOM_PAYLOAD_LOG": str(payloads),
        "PRESSROOM_PAYLOAD_LOG_FRACTION": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    folder = tmp_path_factory.mktemp("watched")
    with running_server(ehr_home, folder / "server.log", environment=environment, cwd=folder) as server:
        yield server


def clean(text: str) -> None:
    """No canary is in the text."""
    found = [canary for canary in CANARIES if canary in text]
    assert found == [], text[:2000]


def traces(collector: Collector) -> str:
    return " ".join(str(span) for span in collector.spans)


def grpc_message(sent: Any) -> Any:
    message = infer_message(MODEL)
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(
        json.dumps(sent).encode()
    )
    return message


def test_nothing_of_a_good_request_is_written_down(watched: LiveServer, collector: Collector, payloads: Path) -> None:
    inputs = [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps(GOOD)]}]
    assert watched.post(ROUTE, json=GOOD, headers={"X-Request-Id": "good"}).status_code == 200
    assert watched.post(f"/v2/models/{MODEL}/infer", json={"inputs": inputs}).status_code == 200
    assert grpc_infer(watched, grpc_message(GOOD)).raw_output_contents
    eventually(lambda: collector.of_request("good"), "its span has come")
    assert '"good"' in watched.log.read_text()  # the access log has its line
    assert payloads.read_bytes() == b""
    clean(watched.log.read_text() + watched.get("/metrics").text + traces(collector))


@pytest.mark.parametrize(("sent", "code"), BAD, ids=[f"{code}-{i}" for i, (_, code) in enumerate(BAD)])
def test_nothing_of_a_refused_request_comes_back_or_is_written_down(
    watched: LiveServer, collector: Collector, sent: Any, code: str
) -> None:
    response = watched.post(ROUTE, json=sent)
    check_http(response, 422, code, response.json()["error"]["field"])
    refused = check_grpc(watched, grpc_message(sent), "INVALID_ARGUMENT", code, response.json()["error"]["field"])
    clean(response.text + json.dumps(refused) + watched.log.read_text() + traces(collector))


def test_a_parquet_file_that_cannot_be_read_is_not_quoted(watched: LiveServer) -> None:
    rest = {k: v for k, v in GOOD.items() if k != "patients"}
    inside = watched.post(ROUTE, json={**rest, "events_parquet": base64.b64encode(canary_file()).decode()})
    form = watched.post(ROUTE, files={"events_parquet": canary_file()}, data={"request": json.dumps(rest)})
    for response in (inside, form):
        check_http(response, 422, "parquet_invalid", "events_parquet")
        clean(response.text + watched.log.read_text())


@pytest.mark.parametrize("body", [b'{"patients": [{"events": "CANARY', b"CANARY", b'["CANARY"]', b"\xffCANARY"])
def test_a_body_that_is_no_request_is_not_quoted(watched: LiveServer, body: bytes) -> None:
    response = watched.post(ROUTE, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    clean(response.text + watched.log.read_text() + watched.get("/metrics").text)


def test_a_crashed_worker_leaves_nothing_behind(watched: LiveServer, collector: Collector) -> None:
    """SIGSEGV in the middle of a large request, Python's fault handler on: frames are reported, no values, no core."""
    before = set(watched.children())
    large = canary_request() | {"patients": canary_request()["patients"] * 900}
    asking = threading.Thread(target=_ask_and_be_dropped, args=(watched, large))
    asking.start()
    workers = [pid for pid in before if b"worker.service" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for pid in workers:
        os.kill(pid, signal.SIGSEGV)
    asking.join()
    eventually(lambda: set(watched.children()) - before, "another worker was started", 60)
    watched.wait_for("/readyz")
    assert "Segmentation fault" in watched.log.read_text()
    clean(watched.log.read_text() + traces(collector))
    assert [path.name for path in watched.log.parent.iterdir() if path != watched.log] == []  # no core file


def _ask_and_be_dropped(server: LiveServer, sent: Json) -> None:
    try:
        server.post(ROUTE, json=sent)
    except httpx.TransportError:
        return


def test_plain_connections_are_refused_where_tls_is_demanded(ehr_home: Path, tmp_path: Path) -> None:
    with running_server(ehr_home, tmp_path / "plain.log", environment={"PRESSROOM_EHR_TLS_ONLY": "true"}) as server:
        check_http(server.post(ROUTE, json=GOOD), 403, "tls_required", None)
        check_grpc(server, grpc_message(GOOD), "PERMISSION_DENIED", "tls_required", None)
        clean(server.log.read_text())


def test_tls_connections_are_answered_where_tls_is_demanded(ehr_home: Path, tmp_path: Path) -> None:
    command = [PRESSROOM, "serve", "ehr"]
    with running_tls(ehr_home, tmp_path, make_certificates(tmp_path), command, ehr_tls_only="true") as server:
        answer = server.post(ROUTE, json=GOOD).json()
        assert [task["task"] for task in answer["patients"][0]["tasks"]] == [TASK]
        with pytest.raises(httpx.TransportError):
            httpx.post(f"http://127.0.0.1:{server.port}{ROUTE}", json=GOOD, timeout=10)
