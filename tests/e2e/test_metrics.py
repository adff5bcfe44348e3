"""/metrics: readable by Prometheus' own parser, complete before the first request, bounded, and true to the answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import etth1
import numpy as np
import pytest
from etth1 import CARD, ITRANSFORMER
from live_server import LiveServer, StartServer
from prometheus_client.parser import text_string_to_metric_families
from refusals import grpc_infer
from tensor_cases import as_json, as_message, clock, history

from services.core.errors import CODES

REQUESTS = "pressroom_requests_total"
STAGES = ("preprocess", "queue", "inference", "postprocess")
INFER_ROUTE = "/v2/models/{name}/infer"
ROUTES = (etth1.FORECAST, INFER_ROUTE)


@pytest.fixture(scope="module")
def fresh(start_server: StartServer) -> LiveServer:
    """A server of this module's own: its counts are known."""
    return start_server()


def forecast(server: LiveServer, model: str, rows: int = 1) -> dict[str, Any]:
    entries = [etth1.series(etth1.START + i) for i in range(rows)]
    answer: dict[str, Any] = server.post(etth1.FORECAST, json=etth1.request(*entries, model=model)).json()
    return answer


def test_every_series_exists_before_the_first_request(fresh: LiveServer) -> None:
    samples = fresh.samples()
    version = fresh.get(f"/v1/models/{CARD}").json()["version"]
    for model in (CARD, ITRANSFORMER):
        own = {"model": model, "version": version}
        for route in ROUTES:
            for protocol in ("http", "grpc"):
                for code in ("ok", "internal"):
                    labels = {**own, "route": route, "protocol": protocol, "code": code}
                    assert samples[REQUESTS, frozenset(labels.items())] == 0
        for stage in STAGES:
            assert samples["pressroom_stage_seconds_count", frozenset({**own, "stage": stage}.items())] == 0
        assert samples["pressroom_queue_rows", frozenset(own.items())] == 0
        assert ("pressroom_batch_rows_count", frozenset(own.items())) in samples
        assert fresh.metric("pressroom_model_ready", **own, family="forecast") == 1


def test_the_warm_up_is_not_counted_as_a_request(fresh: LiveServer) -> None:
    assert fresh.metric(REQUESTS, code="ok") == 0


def test_stage_times_and_counts_equal_what_the_answers_said(fresh: LiveServer) -> None:
    rows = (1, 1, 3, 7, 1)
    before = {stage: fresh.metric("pressroom_stage_seconds_sum", model=CARD, stage=stage) for stage in STAGES}
    counted = fresh.metric(REQUESTS, model=CARD, route=etth1.FORECAST, protocol="http", code="ok")
    forwarded = fresh.metric("pressroom_batch_rows_sum", model=CARD)
    answers = [forecast(fresh, CARD, count) for count in rows]
    for stage in STAGES:
        said = sum(answer["timings"][f"{stage}_ms"] for answer in answers) / 1000
        measured = fresh.metric("pressroom_stage_seconds_sum", model=CARD, stage=stage) - before[stage]
        assert measured == pytest.approx(said, abs=len(rows) * 1e-6)  # answers round to 0.1 microseconds
        assert fresh.metric("pressroom_stage_seconds_count", model=CARD, stage=stage) == counted + len(rows)
    total = fresh.metric(REQUESTS, model=CARD, route=etth1.FORECAST, protocol="http", code="ok")
    assert total == counted + len(rows)
    assert fresh.metric("pressroom_batch_rows_sum", model=CARD) - forwarded == sum(rows)


def test_each_way_in_is_counted_under_its_route_protocol_and_code(fresh: LiveServer) -> None:
    def counts() -> Counter[tuple[str, str, str]]:
        found: Counter[tuple[str, str, str]] = Counter()
        for (name, labels), value in fresh.samples().items():
            said = dict(labels)
            if name == REQUESTS and said["model"] == ITRANSFORMER:
                found[said["route"], said["protocol"], said["code"]] += int(value)
        return found

    before = counts()
    forecast(fresh, ITRANSFORMER)
    fresh.post(etth1.FORECAST, json={"model": ITRANSFORMER, "series": []})
    fresh.post(f"/v2/models/{ITRANSFORMER}/infer", json=as_json([history()]))
    fresh.post(f"/v2/models/{ITRANSFORMER}/infer", json=as_json([history()]))
    fresh.post(f"/v2/models/{ITRANSFORMER}/infer", json=as_json([clock()]))
    grpc_infer(fresh, as_message(ITRANSFORMER, [history()]))
    assert counts() - before == {
        (etth1.FORECAST, "http", "ok"): 1,
        (etth1.FORECAST, "http", "empty_batch"): 1,
        (INFER_ROUTE, "http", "ok"): 2,
        (INFER_ROUTE, "http", "tensor_missing"): 1,
        (INFER_ROUTE, "grpc", "ok"): 1,
    }


def test_paths_nobody_knows_add_no_series(fresh: LiveServer) -> None:
    def names() -> set[tuple[str, frozenset[tuple[str, str]]]]:
        return set(fresh.samples())

    for path in ("/nowhere", "/v2/models/nobody", "/v1/models/nobody"):  # the first refusal of a kind may add one
        fresh.get(path)
    fresh.post("/v2/models/nobody/infer", json={})
    before = names()
    for i in range(50):
        fresh.get(f"/nowhere/{i}")
        fresh.get(f"/v2/models/nobody-{i}")
        fresh.get(f"/v1/models/nobody-{i}")
    for i in range(10):
        fresh.post(f"/v2/models/nobody-{i}/infer", json={})
        fresh.post(etth1.FORECAST, json={"model": f"nobody-{i}"})
        fresh.post(etth1.FORECAST, json={"model": CARD, "version": str(i + 50)})
    new = names() - before
    assert {name for name, _ in new} <= {REQUESTS}, f"{len(new)} series, e.g. {sorted(map(str, new))[:3]}"
    assert {dict(labels)["code"] for _, labels in new} <= {"model_not_found", "version_not_found"}
    assert len(new) <= 2


def test_labels_are_templates_and_known_words(fresh: LiveServer) -> None:
    fresh.get(f"/v1/models/{CARD}")
    fresh.get(f"/v2/models/{CARD}/versions/99/config")
    families = {family.name: family for family in text_string_to_metric_families(fresh.get("/metrics").text)}
    served = {CARD, ITRANSFORMER, ""}
    for sample in families["pressroom_requests"].samples:
        labels = sample.labels
        assert labels["model"] in served
        assert labels["code"] in {"ok", *CODES}
        assert labels["protocol"] in ("http", "grpc")
        assert not any(word in labels["route"] for word in (CARD, ITRANSFORMER, "nobody", "99"))


def test_the_exposition_is_what_prometheus_reads(fresh: LiveServer) -> None:
    response = fresh.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    families = list(text_string_to_metric_families(response.text))
    names = Counter(family.name for family in families)
    assert max(names.values()) == 1
    ours = {family.name: family for family in families if family.name.startswith("pressroom_")}
    for name, kind in {
        "pressroom_requests": "counter",
        "pressroom_stage_seconds": "histogram",
        "pressroom_batch_rows": "histogram",
        "pressroom_queue_rows": "gauge",
        "pressroom_in_flight_requests": "gauge",
        "pressroom_model_ready": "gauge",
    }.items():
        assert ours[name].type == kind
        assert len(ours[name].documentation) > 10


def test_histogram_buckets_are_cumulative_and_end_in_the_count(fresh: LiveServer) -> None:
    forecast(fresh, CARD)
    series: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    counts = {}
    for (name, labels), value in fresh.samples().items():
        rest = frozenset(item for item in labels if item[0] != "le")
        if name == "pressroom_stage_seconds_bucket":
            series.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        elif name == "pressroom_stage_seconds_count":
            counts[rest] = value
    assert series.keys() == counts.keys()
    for rest, buckets in series.items():
        heights = np.array([height for _, height in sorted(buckets)])
        assert (np.diff(heights) >= 0).all()
        assert heights[-1] == counts[rest]


def test_probes_and_scrapes_are_not_requests(fresh: LiveServer) -> None:
    before = fresh.metric(REQUESTS)
    for path in ("/livez", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready", f"/v2/models/{CARD}/ready"):
        assert fresh.get(path).status_code == 200
    assert fresh.metric(REQUESTS) == before
