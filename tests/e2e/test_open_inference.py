"""The Open Inference Protocol over REST: probes, documents, versions, and every way to send and receive tensors."""

from __future__ import annotations

import gzip
import json
from typing import Any

import etth1
import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from etth1 import CARD, ITRANSFORMER
from live_server import LiveServer
from pressroom_client import Client
from tensor_cases import Input, as_binary, as_json, clock, history

from services.core.settings import Settings

MODELS = (ITRANSFORMER, CARD)
HEADER = "inference-header-content-length"
INFER = f"/v2/models/{ITRANSFORMER}/infer"
SAME = {"rtol": 1e-5, "atol": 1e-5}

every_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def version(server: LiveServer) -> str:
    """The served version of both models."""
    (only,) = {server.get(f"/v1/models/{model}").json()["version"] for model in MODELS}
    return only


@pytest.fixture(scope="module")
def truth(server: LiveServer) -> np.ndarray:
    """iTransformer's forecast of the default window."""
    answer = server.post(etth1.FORECAST, json=etth1.request()).json()
    return etth1.forecast_of(answer["series"][0])


def send_binary(server: LiveServer, inputs: list[Input], path: str = INFER, **more: Any) -> httpx.Response:
    document, raw = as_binary(inputs)
    text = json.dumps(document | more).encode()
    response = server.post(path, content=text + raw, headers={HEADER: str(len(text))})
    return response.raise_for_status()


def split(response: httpx.Response) -> tuple[dict[str, Any], bytes]:
    """JSON header and raw bytes of a binary answer."""
    length = int(response.headers[HEADER])
    assert response.headers["content-type"] == "application/octet-stream"
    return json.loads(response.content[:length]), response.content[length:]


# --- probes and documents


def test_the_server_is_live_and_ready(server: LiveServer) -> None:
    assert server.get("/v2/health/live").json() == {"live": True}
    assert server.get("/v2/health/ready").json() == {"ready": True}
    with triton.InferenceServerClient(server.address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()


@every_model
def test_models_are_ready_by_name_and_version(server: LiveServer, model: str, version: str) -> None:
    assert server.get(f"/v2/models/{model}/ready").json() == {"name": model, "ready": True}
    assert server.get(f"/v2/models/{model}/versions/{version}/ready").status_code == 200
    with triton.InferenceServerClient(server.address) as client:
        assert client.is_model_ready(model)
        assert client.is_model_ready(model, version)
        assert not client.is_model_ready(model, "99")
        assert not client.is_model_ready("nobody")


def test_the_server_describes_itself(server: LiveServer) -> None:
    document = server.get("/v2").json()
    assert document["name"] == "pressroom"
    assert document["version"]
    assert {"binary_tensor_data", "model_configuration", "model_repository"} <= set(document["extensions"])
    with triton.InferenceServerClient(server.address) as client:
        assert client.get_server_metadata() == document


@every_model
def test_a_model_describes_its_tensors(server: LiveServer, model: str, version: str) -> None:
    document = server.get(f"/v2/models/{model}").json()
    assert document["name"] == model
    assert version in document["versions"]
    assert document["platform"].startswith("pressroom_")
    inputs = {tensor["name"]: tensor for tensor in document["inputs"]}
    assert inputs["history"] == {"name": "history", "datatype": "FP32", "shape": [-1, 96, 7]}
    assert inputs["timestamps"] == {"name": "timestamps", "datatype": "INT64", "shape": [-1, 96]}
    assert document["outputs"] == [{"name": "forecast", "datatype": "FP32", "shape": [-1, 96, 7]}]
    assert server.get(f"/v2/models/{model}/versions/{version}").json() == document
    with triton.InferenceServerClient(server.address) as client:
        assert client.get_model_metadata(model) == document


@every_model
def test_a_model_has_the_configuration_tritons_tools_ask_for(server: LiveServer, model: str, version: str) -> None:
    document = server.get(f"/v2/models/{model}/config").json()
    assert document["name"] == model
    defaults = Settings()
    assert document["max_batch_size"] == defaults.max_batch_rows
    assert document["dynamic_batching"] == {"max_queue_delay_microseconds": 1000 * defaults.max_delay_ms}
    inputs = {tensor["name"]: tensor for tensor in document["input"]}
    assert (inputs["history"]["data_type"], inputs["history"]["dims"]) == ("TYPE_FP32", [96, 7])
    assert (inputs["history"]["optional"], inputs["timestamps"]["optional"]) == (False, True)
    assert document["output"] == [{"name": "forecast", "data_type": "TYPE_FP32", "dims": [96, 7]}]
    with triton.InferenceServerClient(server.address) as client:
        assert client.get_model_config(model, version) == document


def test_the_index_lists_what_is_served(server: LiveServer, version: str) -> None:
    entries = server.post("/v2/repository/index", json={}).json()
    expected = {"version": version, "state": "READY", "reason": ""}
    assert sorted(entries, key=lambda e: e["name"]) == [{"name": name, **expected} for name in sorted(MODELS)]
    assert server.post("/v2/repository/index").json() == entries
    assert server.post("/v2/repository/index", json={"ready": True}).json() == entries
    with triton.InferenceServerClient(server.address) as client:
        assert client.get_model_repository_index() == entries


def test_v1_models_and_the_protocol_agree_on_what_is_served(server: LiveServer, version: str) -> None:
    listed = server.get("/v1/models").json()
    assert listed["object"] == "list"
    assert sorted(entry["id"] for entry in listed["data"]) == sorted(MODELS)
    for entry in listed["data"]:
        assert (entry["object"], entry["owned_by"], entry["family"]) == ("model", "pressroom", "forecast")
        assert (entry["version"], entry["versions"]) == (version, [version])
        assert entry["architecture"] == entry["id"].removesuffix("-etth1")
        assert entry["digest"].startswith("sha256:")
        assert len(entry["digest"]) == len("sha256:") + 64
        certificate = entry["certificate"]
        assert certificate["verdict"] == "ok"
        assert 0 <= certificate["max_abs"] < 1e-3
        assert certificate["cases"] >= 5
        assert certificate["tolerance"].keys() == {"atol", "rtol"}
        assert entry["settings"] | {"look_back": 96, "horizon": 96, "frequency": "h"} == entry["settings"]
        assert entry["settings"]["columns"] == list(etth1.COLUMNS)
        assert "scaler" not in entry["settings"]
        assert [tensor["name"] for tensor in entry["signature"]["outputs"]] == ["forecast"]
        for name in (entry["id"], f"{entry['id']}:{version}"):
            assert server.get(f"/v1/models/{name}").json().items() >= entry.items()


# --- inference


@pytest.mark.parametrize("path", [INFER, f"/v2/models/{ITRANSFORMER}/versions/{{version}}/infer"])
def test_an_answer_names_model_version_id_and_explains_itself(server: LiveServer, path: str, version: str) -> None:
    body = as_json([history(), clock()]) | {"id": "call 7"}
    answer = server.post(path.format(version=version), json=body, headers={"X-Request-Id": "trace-7"}).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == (ITRANSFORMER, version, "call 7")
    said = answer["parameters"]
    assert said["request_id"] == "trace-7"
    assert said["digest"] == server.get(f"/v1/models/{ITRANSFORMER}").json()["digest"]
    assert said["batch_rows"] >= 1
    stages = [said[f"{stage}_ms"] for stage in ("preprocess", "queue", "inference", "postprocess")]
    assert sum(stages) == pytest.approx(said["total_ms"], abs=1e-3)


def test_data_may_be_nested_or_flat(server: LiveServer, truth: np.ndarray) -> None:
    flat = as_json([history(), clock()])
    nested = as_json([history(), clock()])
    for entry, array in zip(nested["inputs"], (etth1.history(), etth1.clock()), strict=True):
        entry["data"] = array.tolist()
    for body in (flat, nested):
        (output,) = server.post(INFER, json=body).raise_for_status().json()["outputs"]
        assert output["shape"] == [1, 96, 7]
        np.testing.assert_allclose(np.array(output["data"]).reshape(96, 7), truth, **SAME)


def test_inputs_may_come_in_any_order(server: LiveServer, truth: np.ndarray) -> None:
    (output,) = server.post(INFER, json=as_json([clock(), history()])).json()["outputs"]
    np.testing.assert_allclose(np.array(output["data"]).reshape(96, 7), truth, **SAME)


def test_one_input_may_be_raw_and_the_other_json(server: LiveServer, truth: np.ndarray) -> None:
    document, raw = as_binary([history()])
    document["inputs"].insert(0, as_json([clock()])["inputs"][0])
    text = json.dumps(document).encode()
    answer = server.post(INFER, content=text + raw, headers={HEADER: str(len(text))}).json()
    np.testing.assert_allclose(np.array(answer["outputs"][0]["data"]).reshape(96, 7), truth, **SAME)


@pytest.mark.parametrize(
    ("more", "raw_output"),
    [
        ({}, False),
        ({"parameters": {"binary_data_output": True}}, True),
        ({"parameters": {"binary_data_output": False}}, False),
        ({"outputs": [{"name": "forecast"}]}, False),
        ({"outputs": [{"name": "forecast", "parameters": {"binary_data": True}}]}, True),
        ({"outputs": [{"name": "forecast"}], "parameters": {"binary_data_output": True}}, True),
        (
            {
                "outputs": [{"name": "forecast", "parameters": {"binary_data": False}}],
                "parameters": {"binary_data_output": True},
            },
            False,
        ),
    ],
    ids=str,
)
def test_each_output_comes_as_it_was_asked_for(
    server: LiveServer, truth: np.ndarray, more: dict[str, Any], raw_output: bool
) -> None:
    response = send_binary(server, [history(), clock()], **more)
    if not raw_output:
        assert response.headers["content-type"] == "application/json"
        (output,) = response.json()["outputs"]
        got = np.array(output["data"], dtype=np.float32)
    else:
        document, raw = split(response)
        (output,) = document["outputs"]
        assert output["parameters"]["binary_data_size"] == len(raw) == 4 * 96 * 7
        assert "data" not in output
        got = np.frombuffer(raw, np.float32)
    assert (output["name"], output["datatype"], output["shape"]) == ("forecast", "FP32", [1, 96, 7])
    np.testing.assert_allclose(got.reshape(96, 7), truth, **SAME)


def test_json_in_and_raw_out(server: LiveServer, truth: np.ndarray) -> None:
    body = as_json([history(), clock()]) | {"parameters": {"binary_data_output": True}}
    _, raw = split(server.post(INFER, json=body))
    np.testing.assert_allclose(np.frombuffer(raw, np.float32).reshape(96, 7), truth, **SAME)


def test_an_empty_list_of_outputs_means_all(server: LiveServer) -> None:
    answer = server.post(INFER, json=as_json([history()]) | {"outputs": []}).json()
    assert [output["name"] for output in answer["outputs"]] == ["forecast"]


def test_compressed_tensor_bodies_are_read(server: LiveServer, truth: np.ndarray) -> None:
    document, raw = as_binary([history(), clock()])
    text = json.dumps(document).encode()
    headers = {HEADER: str(len(text)), "Content-Encoding": "gzip"}
    answer = server.post(INFER, content=gzip.compress(text + raw), headers=headers).json()
    np.testing.assert_allclose(np.array(answer["outputs"][0]["data"]).reshape(96, 7), truth, **SAME)


@pytest.mark.parametrize("request_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False], ids=["raw", "json"])
def test_tritonclients_compression_options_work(
    server: LiveServer, truth: np.ndarray, request_coding: str | None, response_coding: str | None, binary: bool
) -> None:
    with triton.InferenceServerClient(server.address) as client:
        inputs = [triton.InferInput("history", [1, 96, 7], "FP32"), triton.InferInput("timestamps", [1, 96], "INT64")]
        inputs[0].set_data_from_numpy(etth1.history(), binary_data=binary)
        inputs[1].set_data_from_numpy(etth1.clock(), binary_data=binary)
        answer = client.infer(
            ITRANSFORMER,
            inputs,
            request_id="zipped",
            request_compression_algorithm=request_coding,
            response_compression_algorithm=response_coding,
        )
    assert answer.get_response()["id"] == "zipped"
    np.testing.assert_allclose(answer.as_numpy("forecast")[0], truth, **SAME)


def test_tritonclients_concurrent_requests_each_get_their_own_answer(server: LiveServer) -> None:
    firsts = [200 * i for i in range(16)]

    def inputs(first: int) -> list[triton.InferInput]:
        history_input = triton.InferInput("history", [1, 96, 7], "FP32")
        history_input.set_data_from_numpy(etth1.history(first))
        return [history_input]

    with triton.InferenceServerClient(server.address, concurrency=16) as client:
        alone = [client.infer(CARD, inputs(first)).as_numpy("forecast") for first in firsts]
        pending = [client.async_infer(CARD, inputs(first)) for first in firsts]
        together = [call.get_result().as_numpy("forecast") for call in pending]
    np.testing.assert_allclose(np.stack(together), np.stack(alone), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("binary", [True, False], ids=["raw", "json"])
def test_the_native_request_in_a_bytes_tensor_gets_the_native_answer(
    server: LiveServer, truth: np.ndarray, binary: bool
) -> None:
    text = json.dumps(etth1.request(etth1.series(id="a")))
    with triton.InferenceServerClient(server.address) as client:
        tensor = triton.InferInput("request", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([text.encode()], dtype=object), binary_data=binary)
        wanted = [triton.InferRequestedOutput("response", binary_data=binary)]
        (raw,) = client.infer(ITRANSFORMER, [tensor], outputs=wanted).as_numpy("response")
    answer = json.loads(raw)
    assert (answer["model"], answer["series"][0]["id"]) == (ITRANSFORMER, "a")
    assert answer["series"][0]["timestamps"] == etth1.stamps(etth1.START + 96)
    np.testing.assert_allclose(etth1.forecast_of(answer["series"][0]), truth, **SAME)


def test_the_model_of_the_address_answers_whatever_the_json_inside_names(server: LiveServer) -> None:
    text = json.dumps(etth1.request(model=ITRANSFORMER))
    body = {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    answer = server.post(f"/v2/models/{CARD}/infer", json=body).raise_for_status().json()
    assert json.loads(answer["outputs"][0]["data"][0])["model"] == CARD


def test_our_client_reads_documents_over_both_transports(server: LiveServer, version: str) -> None:
    for address in (server.url, f"grpc://{server.grpc_address}"):
        with Client(address) as client:
            assert client.live()
            assert client.ready()
            assert client.model_ready(CARD)
            assert client.server().name == "pressroom"
            assert sorted(model.name for model in client.models()) == sorted(MODELS)
            assert client.model(CARD).version == version
            assert [(t.name, t.datatype, t.shape) for t in client.metadata(CARD).outputs] == [
                ("forecast", "FP32", (-1, 96, 7))
            ]
