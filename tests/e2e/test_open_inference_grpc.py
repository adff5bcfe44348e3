"""The Open Inference Protocol over gRPC: probes, documents, inference, streams, grpc.health.v1 and reflection."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import etth1
import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from etth1 import CARD, ITRANSFORMER
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from live_server import LiveServer, StartServer
from refusals import check_envelope, grpc_infer, infer_message
from tensor_cases import as_message, clock, history
from tritonclient.grpc import service_pb2, service_pb2_grpc

SERVICE = "inference.GRPCInferenceService"
SAME = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def channel(server: LiveServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


@pytest.fixture
def client(server: LiveServer) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(server.grpc_address) as client:
        yield client


@pytest.fixture(scope="module")
def truth(server: LiveServer) -> np.ndarray:
    """iTransformer's forecast of the default window."""
    answer = server.post(etth1.FORECAST, json=etth1.request()).json()
    return etth1.forecast_of(answer["series"][0])


def forecast(reply: Any) -> np.ndarray:
    (output,) = reply.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("forecast", "FP32", [1, 96, 7])
    return np.frombuffer(reply.raw_output_contents[0], np.float32).reshape(96, 7)


# --- probes and documents


def test_server_and_models_are_live_and_ready(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(CARD)


def test_the_documents_equal_those_of_rest(server: LiveServer, client: triton.InferenceServerClient) -> None:
    said = client.get_server_metadata(as_json=True)
    rest = server.get("/v2").json()
    assert (said["name"], said["version"], said["extensions"]) == (rest["name"], rest["version"], rest["extensions"])
    for model in etth1.MODELS.values():
        over_grpc = client.get_model_metadata(model)
        over_rest = server.get(f"/v2/models/{model}").json()
        assert (over_grpc.name, list(over_grpc.versions), over_grpc.platform) == (
            over_rest["name"],
            over_rest["versions"],
            over_rest["platform"],
        )
        for kind in ("inputs", "outputs"):
            tensors = [
                {"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in getattr(over_grpc, kind)
            ]
            assert tensors == over_rest[kind]


def test_the_configuration_equals_that_of_rest(server: LiveServer, client: triton.InferenceServerClient) -> None:
    config = client.get_model_config(CARD).config
    rest = server.get(f"/v2/models/{CARD}/config").json()
    assert (config.name, config.platform, config.max_batch_size) == (
        rest["name"],
        rest["platform"],
        rest["max_batch_size"],
    )
    assert [(t.name, list(t.dims), t.optional) for t in config.input] == [
        (t["name"], t["dims"], t["optional"]) for t in rest["input"]
    ]
    assert [(t.name, list(t.dims)) for t in config.output] == [(t["name"], t["dims"]) for t in rest["output"]]


def test_the_index_lists_what_is_served(server: LiveServer, client: triton.InferenceServerClient) -> None:
    index = client.get_model_repository_index()
    entries = [{"name": m.name, "version": m.version, "state": m.state, "reason": m.reason} for m in index.models]
    assert entries == server.post("/v2/repository/index").json()


# --- inference


def test_an_answer_names_model_version_id_and_explains_itself(server: LiveServer, truth: np.ndarray) -> None:
    message = as_message(ITRANSFORMER, [history(), clock()])
    message.id = "call 8"
    reply = grpc_infer(server, message, metadata=(("x-request-id", "trace-8"),))
    described = server.get(f"/v1/models/{ITRANSFORMER}").json()
    assert (reply.model_name, reply.model_version, reply.id) == (ITRANSFORMER, described["version"], "call 8")
    said = {key: getattr(p, p.WhichOneof("parameter_choice")) for key, p in reply.parameters.items()}
    assert (said["request_id"], said["digest"], said["calendar"]) == ("trace-8", described["digest"], "present")
    stages = [said[f"{stage}_ms"] for stage in ("preprocess", "queue", "inference", "postprocess")]
    assert sum(stages) == pytest.approx(said["total_ms"], abs=1e-3)
    np.testing.assert_allclose(forecast(reply), truth, **SAME)


def test_the_request_id_is_among_the_trailing_metadata(server: LiveServer, channel: grpc.Channel) -> None:
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    message = as_message(CARD, [history()])
    _, call = stub.ModelInfer.with_call(message, metadata=(("x-request-id", "mine"),))
    assert ("x-request-id", "mine") in [tuple(item) for item in call.trailing_metadata()]
    _, call = stub.ModelInfer.with_call(message)
    assert dict(tuple(item) for item in call.trailing_metadata())["x-request-id"]


def test_a_version_may_be_named(server: LiveServer) -> None:
    version = server.get(f"/v1/models/{CARD}").json()["version"]
    message = as_message(CARD, [history()])
    message.model_version = version
    assert grpc_infer(server, message).model_version == version


def test_typed_contents_are_read_like_raw_ones(server: LiveServer, truth: np.ndarray) -> None:
    message = infer_message(ITRANSFORMER)
    first = message.inputs.add(name="history", datatype="FP32", shape=[1, 96, 7])
    first.contents.fp32_contents.extend(etth1.history().ravel().tolist())
    second = message.inputs.add(name="timestamps", datatype="INT64", shape=[1, 96])
    second.contents.int64_contents.extend(etth1.epochs())
    np.testing.assert_allclose(forecast(grpc_infer(server, message)), truth, **SAME)


def test_outputs_may_be_named(server: LiveServer) -> None:
    reply = grpc_infer(server, as_message(CARD, [history()], ["forecast"]))
    assert [output.name for output in reply.outputs] == ["forecast"]


@pytest.mark.parametrize("raw", [True, False])
def test_the_native_request_in_a_bytes_tensor_gets_the_native_answer(
    server: LiveServer, truth: np.ndarray, raw: bool
) -> None:
    text = json.dumps(etth1.request(etth1.series(id="a"))).encode()
    message = infer_message(ITRANSFORMER)
    tensor = message.inputs.add(name="request", datatype="BYTES", shape=[1])
    if raw:
        message.raw_input_contents.append(len(text).to_bytes(4, "little") + text)
    else:
        tensor.contents.bytes_contents.append(text)
    reply = grpc_infer(server, message)
    assert (reply.outputs[0].name, reply.outputs[0].datatype, list(reply.outputs[0].shape)) == (
        "response",
        "BYTES",
        [1],
    )
    answer = json.loads(reply.raw_output_contents[0][4:])
    assert answer["series"][0]["id"] == "a"
    np.testing.assert_allclose(etth1.forecast_of(answer["series"][0]), truth, **SAME)


def test_a_stream_answers_every_request_in_order_and_a_bad_one_ends_nothing(
    channel: grpc.Channel, truth: np.ndarray
) -> None:
    good = as_message(ITRANSFORMER, [history(), clock()])
    good.id = "good"
    requests = [good, as_message("nobody", [history()]), as_message(CARD, []), good]
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    answers = list(stub.ModelStreamInfer(iter(requests), timeout=30))
    assert len(answers) == 4
    for index, code, field in ((1, "model_not_found", "model"), (2, "invalid_request", "inputs")):
        check_envelope(json.loads(answers[index].error_message), code, field)
    for index in (0, 3):
        assert answers[index].error_message == ""
        assert answers[index].infer_response.id == "good"
        np.testing.assert_allclose(forecast(answers[index].infer_response), truth, **SAME)


def test_tritonclients_stream_works(client: triton.InferenceServerClient, truth: np.ndarray) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    tensor = triton.InferInput("history", [1, 96, 7], "FP32")
    tensor.set_data_from_numpy(etth1.history())
    stamps = triton.InferInput("timestamps", [1, 96], "INT64")
    stamps.set_data_from_numpy(etth1.clock())
    for _ in range(3):
        client.async_stream_infer(ITRANSFORMER, [tensor, stamps])
    for _ in range(3):
        result, error = answers.get(timeout=30)
        assert error is None
        np.testing.assert_allclose(result.as_numpy("forecast")[0], truth, **SAME)
    client.stop_stream()


# --- health, reflection, what is not there


@pytest.mark.parametrize("service", ["", SERVICE])
def test_the_health_service_says_serving(channel: grpc.Channel, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_the_health_of_an_unknown_service_is_not_found(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=30)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_health_watcher_hears_that_a_stopping_server_no_longer_serves(start_server: StartServer) -> None:
    one = start_server()
    states = health_pb2.HealthCheckResponse
    with grpc.insecure_channel(one.grpc_address) as channel:
        heard = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=60)
        assert next(heard).status == states.SERVING
        one.terminate()
        assert next(heard).status == states.NOT_SERVING
        heard.cancel()
    assert one.wait() == 0


def test_reflection_lists_the_services_and_their_methods(channel: grpc.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    ask = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="grpc.health.v1.Health"),
    ]
    listed, described, health = stub.ServerReflectionInfo(iter(ask), timeout=30)
    names = {service.name for service in listed.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} <= names
    (file, *_) = map(FileDescriptorProto.FromString, described.file_descriptor_response.file_descriptor_proto)
    methods = {method.name for service in file.service for method in service.method}
    assert {"ModelInfer", "ModelStreamInfer", "ServerLive", "ModelMetadata", "RepositoryIndex"} <= methods
    assert health.file_descriptor_response.file_descriptor_proto


def test_an_unknown_method_is_unimplemented(channel: grpc.Channel) -> None:
    call = channel.unary_unary(f"/{SERVICE}/ModelGuess")
    with pytest.raises(grpc.RpcError) as refused:
        call(b"", timeout=30)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_many_calls_share_one_channel(channel: grpc.Channel, truth: np.ndarray) -> None:
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    calls = [stub.ModelInfer.future(as_message(ITRANSFORMER, [history(), clock()]), timeout=30) for _ in range(32)]
    for call in calls:
        np.testing.assert_allclose(forecast(call.result()), truth, rtol=1e-4, atol=1e-4)


def test_tritonclients_messages_and_ours_are_the_same_on_the_wire(server: LiveServer) -> None:
    from services.core.oip.messages import ModelInferRequest

    message = as_message(ITRANSFORMER, [history(), clock()], ["forecast"])
    message.id, message.parameters["priority"].int64_param = "x", 3
    ours = ModelInferRequest.FromString(message.SerializeToString())
    assert service_pb2.ModelInferRequest.FromString(ours.SerializeToString()) == message
