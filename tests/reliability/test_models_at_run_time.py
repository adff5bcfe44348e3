"""The repository of a running server: load, unload, exchange under load, shares of traffic, and workers that agree."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import etth1
import numpy as np
import pytest
from asking import INFER, binary_body, forecast_message, refusal_of, rpc, rpc_refusal
from keyring import KeyRing
from live_server import LiveServer, StartServer, eventually
from tiny_server import A, B, running_tiny
from tritonclient import grpc as triton_grpc
from tritonclient import http as triton_http
from tritonclient.grpc import service_pb2

CARD = etth1.CARD
ONNX, TORCH = "1", "2"
LOAD, UNLOAD = f"/v2/repository/models/{CARD}/load", f"/v2/repository/models/{CARD}/unload"
REQUEST = etth1.request(model=CARD)


@pytest.fixture(scope="module")
def store(two_versions_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of this module's own, which a test may damage."""
    home = tmp_path_factory.mktemp("store") / "home"
    shutil.copytree(two_versions_home, home)
    return home


@pytest.fixture(scope="module")
def one(start_server: StartServer, store: Path, keys: KeyRing) -> LiveServer:
    """One worker that starts with the first version alone."""
    return start_server("--models", f"{CARD}:1", "--keys-file", str(keys.path), home=store)


class Operator:
    """Commands with the admin key, questions with the others."""

    def __init__(self, server: LiveServer, keys: KeyRing) -> None:
        self.server, self.keys = server, keys

    def command(self, path: str, **parameters: Any) -> Any:
        return self.server.post(path, json={"parameters": parameters}, headers=self.keys.bearer("admin"))

    def load(self, **parameters: Any) -> dict[str, Any]:
        response = self.command(LOAD, **parameters)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def unload(self, version: str) -> None:
        response = self.command(UNLOAD, version=version)
        assert response.status_code == 200, response.text

    def versions(self) -> list[str]:
        response = self.server.get(f"/v1/models/{CARD}", headers=self.keys.bearer("infer"))
        return sorted(response.json()["versions"]) if response.status_code == 200 else []

    def only(self, version: str) -> None:
        """Bring the server to this version alone."""
        self.load(version=version)
        for other in set(self.versions()) - {version}:
            self.unload(other)

    def ask(self, request_id: str = "x", **headers: str) -> dict[str, Any]:
        named = {**self.keys.bearer("infer"), "X-Request-Id": request_id, **headers}
        response = self.server.post(etth1.FORECAST, json=REQUEST, headers=named)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def metric(self, name: str, **labels: str) -> float:
        text = self.server.get("/metrics", headers=self.keys.bearer("metrics")).text
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = [line for line in text.splitlines() if line.startswith((name + "{", name + " "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(w in line for w in wanted))


@pytest.fixture
def operator(one: LiveServer, keys: KeyRing) -> Operator:
    found = Operator(one, keys)
    found.only(ONNX)
    return found


class Pressure:
    """Callers who ask without pause while something happens; every answer is kept."""

    def __init__(self, operator: Operator, callers: int = 4) -> None:
        self.statuses: list[int] = []
        self.versions: set[str] = set()
        self._operator = operator
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(callers)]

    def _call(self) -> None:
        body, headers = binary_body(etth1.history())
        with _client(self._operator) as client:
            while not self._stop.is_set():
                response = client.post(INFER.format(CARD), content=body, headers=headers)
                self.statuses.append(response.status_code)
                head = response.content[: int(response.headers.get("inference-header-content-length", "0"))]
                if head:
                    self.versions.add(json.loads(head)["model_version"])

    def __enter__(self) -> Pressure:
        for thread in self._threads:
            thread.start()
        self.wait_for_more()
        return self

    def wait_for_more(self, answers: int = 20) -> None:
        """So many further answers have come."""
        before = len(self.statuses)
        eventually(lambda: len(self.statuses) >= before + answers, "requests are answered")

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)


def _client(operator: Operator) -> Any:
    import httpx

    return httpx.Client(base_url=operator.server.url, headers=operator.keys.bearer("infer"), timeout=30)


def test_a_version_is_loaded_and_unloaded_over_rest(operator: Operator) -> None:
    loaded = operator.load(version=TORCH)
    assert (loaded["name"], loaded["version"], loaded["state"]) == (CARD, TORCH, "READY")
    assert operator.versions() == [ONNX, TORCH]
    answer = operator.ask()
    assert (answer["version"], answer["digest"]) == (TORCH, loaded["digest"])
    operator.unload(TORCH)
    assert operator.ask()["version"] == ONNX
    refusal = refusal_of(operator.server.get(f"/v2/models/{CARD}/versions/2", headers=operator.keys.bearer("infer")))
    assert refusal.code == "version_not_found"


def test_the_latest_is_loaded_if_no_version_is_named(operator: Operator) -> None:
    assert operator.load()["version"] == TORCH


def test_a_model_is_loaded_and_unloaded_over_grpc(operator: Operator) -> None:
    metadata = operator.keys.metadata("admin")
    load = service_pb2.RepositoryModelLoadRequest(model_name=CARD)
    load.parameters["version"].string_param = TORCH
    load.parameters["canary_weight"].string_param = "0"
    rpc(operator.server, "RepositoryModelLoad", load, metadata=metadata)
    assert operator.versions() == [ONNX, TORCH]
    assert operator.ask()["version"] == ONNX
    unload = service_pb2.RepositoryModelUnloadRequest(model_name=CARD)
    unload.parameters["version"].string_param = TORCH
    rpc(operator.server, "RepositoryModelUnload", unload, metadata=metadata)
    assert operator.versions() == [ONNX]


def test_tritonclient_loads_unloads_and_lists_over_both_protocols(operator: Operator) -> None:
    admin, reader = operator.keys.bearer("admin"), operator.keys.bearer("infer")
    with triton_http.InferenceServerClient(operator.server.address) as client:
        client.unload_model(CARD, headers=admin)
        assert not client.is_model_ready(CARD, headers=reader)
        client.load_model(CARD, headers=admin)
        assert client.is_model_ready(CARD, headers=reader)
        index = client.get_model_repository_index(headers=reader)
        assert {"name": CARD, "version": TORCH, "state": "READY"}.items() <= index[0].items()
    lower = {"authorization": admin["Authorization"]}
    with triton_grpc.InferenceServerClient(operator.server.grpc_address) as client:
        client.unload_model(CARD, headers=lower)
        client.load_model(CARD, headers=lower)
        assert client.is_model_ready(CARD, headers=lower)


def test_a_server_without_models_is_not_ready_and_says_why(operator: Operator) -> None:
    operator.unload(ONNX)
    refusal = refusal_of(operator.server.get("/readyz"))
    assert (refusal.status, refusal.code) == (503, "model_not_ready")
    operator.load(version=ONNX)
    assert operator.server.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("path", "parameters", "status", "code"),
    [
        (LOAD, {"version": "77"}, 409, "load_failed"),
        ("/v2/repository/models/nothing/load", {}, 409, "load_failed"),
        (LOAD, {"canary_weight": 2}, 422, "invalid_request"),
        (LOAD, {"colour": "red"}, 422, "invalid_request"),
        (UNLOAD, {"version": "77"}, 404, "version_not_found"),
        ("/v2/repository/models/nothing/unload", {}, 404, "model_not_found"),
    ],
)
def test_a_command_that_cannot_be_carried_out_changes_nothing(
    operator: Operator, path: str, parameters: dict[str, Any], status: int, code: str
) -> None:
    refusal = refusal_of(operator.command(path, **parameters))
    assert (refusal.status, refusal.code) == (status, code)
    assert operator.versions() == [ONNX]
    assert operator.server.get("/readyz").status_code == 200


@pytest.mark.parametrize("name", ["nothing", "..", "../../etc/passwd", "/etc", "a\0b", "x" * 5000, "*", "UPPER"])
def test_a_name_that_is_no_artifact_cannot_be_loaded(operator: Operator, name: str) -> None:
    message = service_pb2.RepositoryModelLoadRequest(model_name=name)
    refusal = rpc_refusal(operator.server, "RepositoryModelLoad", message, metadata=operator.keys.metadata("admin"))
    assert (refusal.status, refusal.code) == ("FAILED_PRECONDITION", "load_failed")


def test_a_damaged_version_is_refused_while_the_old_one_answers(operator: Operator, store: Path) -> None:
    weights = store / "models" / CARD / TORCH / "network.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # one bit
    try:
        with Pressure(operator) as pressure:
            refusal = refusal_of(operator.command(LOAD, version=TORCH))
            pressure.wait_for_more()
    finally:
        weights.write_bytes(whole)
    assert (refusal.status, refusal.code) == (409, "load_failed")
    assert "network.safetensors" in refusal.error["message"]
    assert set(pressure.statuses) == {200}
    assert pressure.versions == {ONNX}
    assert operator.versions() == [ONNX]
    assert operator.load(version=TORCH)["state"] == "READY"  # repaired


def test_an_exchange_under_load_fails_no_request(operator: Operator) -> None:
    """Loaded beside, unloaded, loaded again in place: every request meets a whole version."""
    with Pressure(operator) as pressure:
        for _ in range(3):
            operator.load(version=TORCH)
            pressure.wait_for_more()
            operator.unload(ONNX)
            pressure.wait_for_more()
            operator.load(version=ONNX)
            operator.unload(TORCH)
            pressure.wait_for_more()
            operator.load(version=ONNX)  # the same once more, in place
    assert len(pressure.statuses) > 200
    assert set(pressure.statuses) == {200}
    assert pressure.versions == {ONNX, TORCH}


def test_a_canary_gets_exactly_the_request_ids_its_draw_says(operator: Operator) -> None:
    operator.load(version=TORCH, canary_weight=0.25)
    ids = [f"caller-{i}" for i in range(80)]
    drawn = {i: int.from_bytes(hashlib.blake2b(f"canary:{i}".encode(), digest_size=6).digest(), "big") for i in ids}
    expected = {i: TORCH if draw / 2**48 < 0.25 else ONNX for i, draw in drawn.items()}
    assert {i: operator.ask(i)["version"] for i in ids} == expected
    chosen = [i for i in ids if expected[i] == TORCH]
    assert 10 <= len(chosen) <= 30
    message = forecast_message()
    for i in ids[:20]:
        metadata = [*operator.keys.metadata("infer"), ("x-request-id", i)]
        assert rpc(operator.server, "ModelInfer", message, metadata=metadata).model_version == expected[i]


def test_a_pin_or_a_named_version_overrides_the_shares(operator: Operator) -> None:
    operator.load(version=TORCH, canary_weight=1.0)
    assert operator.ask()["version"] == TORCH
    assert operator.ask(**{"X-Model-Version": ONNX})["version"] == ONNX
    metadata = [*operator.keys.metadata("infer"), ("x-model-version", ONNX)]
    assert rpc(operator.server, "ModelInfer", forecast_message(), metadata=metadata).model_version == ONNX
    body, headers = binary_body(etth1.history())
    named = {**headers, **operator.keys.bearer("infer"), "X-Model-Version": ONNX}
    path = f"/v2/models/{CARD}/versions/2/infer"
    response = operator.server.post(path, content=body, headers=named)
    head = response.content[: int(response.headers["inference-header-content-length"])]
    assert json.loads(head)["model_version"] == TORCH
    headers = {**operator.keys.bearer("infer"), "X-Model-Version": "77"}
    assert refusal_of(operator.server.post(etth1.FORECAST, json=REQUEST, headers=headers)).code == "version_not_found"


def test_a_shadow_version_computes_every_answer_and_differs_by_nothing(operator: Operator) -> None:
    """onnxruntime and torch run the same checkpoint: their raw forecasts differ by rounding only."""
    operator.load(version=TORCH, canary_weight=0, shadow_fraction=1)
    labels = {"model": CARD, "version": ONNX, "shadow_version": TORCH}
    before = operator.metric("pressroom_shadow_requests_total", outcome="compared", **labels)
    told = operator.metric("pressroom_shadow_difference_sum", **labels)
    answers = [operator.ask(str(i)) for i in range(8)]
    for i in range(8):
        metadata = [*operator.keys.metadata("infer"), ("x-request-id", str(i))]
        rpc(operator.server, "ModelInfer", forecast_message(), metadata=metadata)
    assert {answer["version"] for answer in answers} == {ONNX}
    eventually(
        lambda: operator.metric("pressroom_shadow_requests_total", outcome="compared", **labels) == before + 16,
        "sixteen answers are compared",
    )
    assert (operator.metric("pressroom_shadow_difference_sum", **labels) - told) / 16 < 1e-3
    assert operator.metric("pressroom_shadow_requests_total", outcome="failed", **labels) == 0


def test_both_versions_forecast_the_same(operator: Operator) -> None:
    operator.load(version=TORCH)
    first, second = (operator.ask(**{"X-Model-Version": v})["series"][0] for v in (ONNX, TORCH))
    np.testing.assert_allclose(etth1.forecast_of(first), etth1.forecast_of(second), atol=1e-3)


def test_an_unloaded_version_is_gone_from_the_metrics_gauges(operator: Operator) -> None:
    operator.load(version=TORCH)
    assert operator.metric("pressroom_model_ready", model=CARD, version=TORCH) == 1
    assert operator.metric("pressroom_model_loaded_timestamp_seconds", model=CARD, version=TORCH) > 1.6e9
    operator.unload(TORCH)
    assert operator.metric("pressroom_model_ready", model=CARD, version=TORCH) == 0
    assert operator.metric("pressroom_model_loaded_timestamp_seconds", model=CARD, version=TORCH) == 0


def test_two_workers_follow_a_command_and_so_does_the_one_that_replaces_a_killed_one(
    start_server: StartServer, store: Path, keys: KeyRing
) -> None:
    flags = ("--models", f"{CARD}:1", "--workers", "2", "--keys-file", str(keys.path))
    operator = Operator(start_server(*flags, home=store), keys)

    def ready(version: str) -> float:
        return operator.metric("pressroom_model_ready", model=CARD, version=version)

    eventually(lambda: ready(ONNX) == 2, "both workers are ready", 60)
    operator.load(version=TORCH, canary_weight=1.0)
    operator.unload(ONNX)
    eventually(lambda: (ready(ONNX), ready(TORCH)) == (0, 2), "both workers follow", 30)
    victim = operator.server.children()[0]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: ready(TORCH) == 1, "the killed worker's gauges are gone", 30)
    eventually(lambda: (ready(ONNX), ready(TORCH)) == (0, 2), "its successor has followed every command", 60)
    assert victim not in operator.server.children()
    assert {operator.ask(str(i))["version"] for i in range(20)} == {TORCH}


def test_all_versions_are_served_where_that_is_asked_for(tiny_home: Path, tmp_path: Path) -> None:
    """Exact versions, and the newest where none is named, are what the other tests start with."""
    with running_tiny(tiny_home, tmp_path, models=f"{A}:all,{B}:1", grpc_port="0") as tiny:
        listed = tiny.server.get("/v1/models").json()["data"]
        assert {entry["id"]: sorted(entry["versions"]) for entry in listed} == {A: ["1", "2"], B: ["1"]}
        assert tiny.ask(1.0).json()["version"] == "2"
