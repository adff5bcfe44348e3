"""The official tutorial checkpoint, pressed and served: HTTP answers are the published program's."""

from __future__ import annotations

import base64
import io
import json
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_server import LiveServer
from refusals import grpc_infer, infer_message
from tutorial_records import (
    BIRTH,
    CASE,
    GOLDEN,
    MODEL,
    ROUTE,
    STARTS,
    TASK,
    adapter,
    events_of,
    expected,
    record,
    request,
)

from export.artifact import digest_of

CONFIG = json.loads((GOLDEN / "config.json").read_bytes())
TASKS = [code for code, _ in CONFIG["task_config"]["task_kwargs"]["pretraining_task_info"]]
TOLERANCE = {"atol": CASE["tolerance"]["atol"], "rtol": CASE["tolerance"]["rtol"]}


def moments(place: int) -> tuple[list[str], npt.NDArray[Any]]:
    """Every moment of a patient's record at which the published program has a position, and which that is."""
    case = CASE["patients"][place]
    born = next(datetime.fromisoformat(e["time"]) for e in case["events"] if e["code"] == BIRTH)
    ages = expected(case["subject_id"])["ages"]
    times = list(dict.fromkeys(event["time"] for event in case["events"]))
    days = np.array([(datetime.fromisoformat(time) - born).total_seconds() / 86400 for time in times])
    last = (ages[None, :] <= days[:, None] + 1e-3).sum(axis=1) - 1
    return [time for time, position in zip(times, last, strict=True) if position >= 0], last[last >= 0]


@pytest.mark.parametrize("place", range(len(CASE["patients"])))
def test_http_answers_are_the_published_program_s_at_every_moment(ehr_server: LiveServer, place: int) -> None:
    times, positions = moments(place)
    patients = [{"events": events_of(CASE["patients"][place]), "prediction_time": time} for time in times]
    sent = {"model": MODEL, "patients": patients, "tasks": TASKS, "return_representation": True}
    answer = ehr_server.post(ROUTE, json=sent).json()
    wanted = expected(CASE["patients"][place]["subject_id"])
    assert set(positions) == set(range(len(wanted["representations"]))) - shadowed(place)
    for last, got in zip(positions, answer["patients"], strict=True):
        np.testing.assert_allclose(got["representation"], wanted["representations"][last], **TOLERANCE)
        rates = np.array([task["hazard"]["per_day"] for task in got["tasks"]]) / 86400
        hazards = np.exp2(wanted["log2_hazard"][last].astype(np.float64)).T
        np.testing.assert_allclose(np.log2(rates[rates > 0]), np.log2(hazards[hazards > 0]), **TOLERANCE)
        assert ((rates == 0) == (hazards == 0)).all()
        assert (hazards == 0).any()  # logits of -inf are among them


def shadowed(place: int) -> set[int]:
    """Positions that share their moment with a later one: no prediction time ends at them."""
    ages = expected(CASE["patients"][place]["subject_id"])["ages"]
    return {i for i in range(len(ages) - 1) if ages[i] == ages[i + 1]}


def test_survival_risk_and_median_follow_from_the_hazards(ehr_server: LiveServer) -> None:
    answer = ehr_server.post(ROUTE, json=request(tasks=TASKS, horizons_days=[30, 200, 400, 3650])).json()
    starts = np.array(STARTS) / 86400
    medians = []
    for task in answer["patients"][0]["tasks"]:
        rates = np.array(task["hazard"]["per_day"])
        assert task["hazard"]["edges_days"] == [*starts.tolist(), None]
        ends = np.append(starts[1:], np.inf)
        inside = np.clip(np.minimum(np.array(task["horizons_days"])[:, None], ends) - starts, 0, None)
        np.testing.assert_allclose(task["survival"], np.exp(-inside @ rates), rtol=1e-12)
        np.testing.assert_allclose(np.array(task["survival"]) + task["risk"], 1, atol=1e-15)
        assert task["source"] == "pretraining"
        medians.append(task["median_days"])
        if task["median_days"] is None:
            assert task["median"] == "not reached"
            assert rates[-1] == 0
        else:
            at = np.clip(np.minimum(task["median_days"], ends) - starts, 0, None)
            assert np.exp(-at @ rates) == pytest.approx(0.5)
    assert None in medians
    assert any(median is not None for median in medians)


def test_grpc_and_the_protocol_s_rest_answer_as_http_does(ehr_server: LiveServer) -> None:
    sent = request(tasks=None, return_representation=True)
    http = ehr_server.post(ROUTE, json=sent).json()["patients"]
    message = infer_message(MODEL)
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(
        json.dumps(sent).encode()
    )
    raw = grpc_infer(ehr_server, message).raw_output_contents[0]
    assert json.loads(raw[4:])["patients"] == http
    inputs = [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps(sent)]}]
    rest = ehr_server.post(f"/v2/models/{MODEL}/infer", json={"inputs": inputs}).json()
    assert json.loads(rest["outputs"][0]["data"][0])["patients"] == http


def meds_file(*records: list[dict[str, Any]], **options: Any) -> bytes:
    """Records as a MEDS parquet file with a column nobody reads; subjects 7, 8, ..."""
    rows = [(i, event) for i, events in enumerate(records, 7) for event in events]
    columns = {
        "subject_id": pa.array([i for i, _ in rows], pa.int64()),
        "time": pa.array([datetime.fromisoformat(e["time"]) for _, e in rows], pa.timestamp("us", **options)),
        "code": pa.array([e["code"] for _, e in rows]),
        "numeric_value": pa.array([e.get("numeric_value") for _, e in rows], pa.float32()),
        "hadm_id": pa.array([1] * len(rows)),
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def test_a_meds_parquet_file_is_answered_as_its_events_are(ehr_server: LiveServer) -> None:
    first, second = (events_of(patient) for patient in CASE["patients"][:2])
    file = meds_file(second, first)
    rest = {k: v for k, v in request().items() if k != "patients"}
    plain = ehr_server.post(ROUTE, json=request({"events": second}, {"events": first})).json()["patients"]
    inside = ehr_server.post(ROUTE, json={**rest, "events_parquet": base64.b64encode(file).decode()}).json()
    form = ehr_server.post(ROUTE, files={"events_parquet": file}, data={"request": json.dumps(rest)}).json()
    assert [p.pop("id") for p in inside["patients"]] == ["7", "8"]
    for patient in (*plain, *form["patients"]):
        patient.pop("id")
    assert inside["patients"] == plain == form["patients"]


def test_adapters_attach_by_digest_and_the_newest_version_answers(ehr_server: LiveServer) -> None:
    served = ehr_server.get(f"/v1/models/{MODEL}").json()
    assert [(a["name"], a["version"]) for a in served["adapters"]] == [("nervous", "1"), ("nervous", "2")]
    answer = ehr_server.post(ROUTE, json=request(tasks=["nervous", "nervous:1", TASK])).json()
    assert answer["backbone"] == served["settings"]["backbone"]
    newest, first, head = answer["patients"][0]["tasks"]
    assert (newest["version"], first["version"], head["version"]) == ("2", "1", None)
    np.testing.assert_allclose(first["hazard"]["per_day"], head["hazard"]["per_day"], rtol=1e-6)
    np.testing.assert_allclose(newest["hazard"]["per_day"], 2 * np.array(head["hazard"]["per_day"]), rtol=1e-6)
    assert first["digest"] == digest_of(adapter(answer["backbone"], "1").dump())
    by_default = ehr_server.post(ROUTE, json=request(tasks=None)).json()["patients"][0]["tasks"]
    assert [task["task"] for task in by_default] == ["nervous"]


def test_an_answer_does_not_depend_on_its_mates(ehr_server: LiveServer) -> None:
    alone = [ehr_server.post(ROUTE, json=request(record(i))).json()["patients"][0] for i in range(4)]
    together = ehr_server.post(ROUTE, json=request(*(record(i) for i in range(4)))).json()["patients"]
    for one, other in zip(alone, together, strict=True):
        assert one["tasks"][0]["risk"] == pytest.approx(other["tasks"][0]["risk"], rel=1e-5)


def test_the_certificate_says_what_was_tried(ehr_server: LiveServer, ehr_home: Any) -> None:
    certificate = json.loads((ehr_home / "models" / MODEL / "1" / "parity.json").read_bytes())
    cases = {case["name"]: case["longest"] for case in certificate["cases"]}
    assert cases["single-token"] == 1
    assert cases["beyond-the-window"] > 496
    assert cases["beyond-the-reach"] == 2 * 495 + 1 + 9
    assert certificate["prefix_invariance"]["verdict"] == certificate["verdict"] == "ok"
