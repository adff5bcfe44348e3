"""Text models beside the others: what they say of themselves, tensors of JSON over REST and gRPC, our own client."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import tritonclient.http as triton
from live_server import LiveServer
from pressroom_client import AsyncClient, Client, ContextLengthExceeded, EmptyPrompt, InvalidRequest, NotSupported
from text_server import CHAT, CONTEXT, FP32, INT8, answer

TALK = [{"role": "user", "content": "hi"}]
GREEDY = {"max_tokens": 6, "temperature": 0}


@pytest.fixture(params=["http", "grpc"])
def client(text: LiveServer, request: pytest.FixtureRequest) -> Iterator[Client]:
    url = text.url if request.param == "http" else f"grpc://{text.grpc_address}"
    with Client(url) as client:
        yield client


def test_the_list_of_models_tells_what_a_caller_needs(text: LiveServer) -> None:
    (entry,) = [model for model in text.get("/v1/models").json()["data"] if model["id"] == FP32]
    assert entry["family"] == "llm"
    assert entry["context_length"] == CONTEXT
    assert entry["certificate"]["verdict"] == "ok"
    assert entry["settings"]["precision"] == "fp32"


def test_our_client_reads_it(text: LiveServer) -> None:
    with Client(text.url) as client:
        model = client.model(FP32)
    assert (model.family, model.context_length, model.receipt) == ("llm", CONTEXT, None)


def test_metadata_promises_json_in_one_tensor(text: LiveServer) -> None:
    metadata = text.get(f"/v2/models/{FP32}").json()
    assert metadata["inputs"] == [{"name": "request", "datatype": "BYTES", "shape": [1]}]
    assert metadata["outputs"] == [{"name": "response", "datatype": "BYTES", "shape": [1]}]
    config = text.get(f"/v2/models/{FP32}/config").json()
    assert config["max_batch_size"] == 0
    assert "dynamic_batching" not in config


def test_triton_clients_send_the_routes_json_in_a_tensor(text: LiveServer) -> None:
    server = triton.InferenceServerClient(text.address)
    for path, body in (("/v1/completions", {"prompt": "hi", **GREEDY}), (CHAT, {"messages": TALK, **GREEDY})):
        tensor = triton.InferInput("request", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([json.dumps(body).encode()], dtype=np.object_))
        got = json.loads(server.infer(FP32, [tensor]).as_numpy("response")[0])
        assert got["choices"] == answer(text, path, **body)["choices"]
        assert got["pressroom"]["model"] == FP32
    server.close()


def test_other_tensors_are_refused(text: LiveServer) -> None:
    tensor = {"name": "input_ids", "datatype": "INT64", "shape": [1, 1], "data": [5]}
    response = text.post(f"/v2/models/{FP32}/infer", json={"inputs": [tensor]})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "tensor_shape")


def test_our_client_asks_over_both_transports(text: LiveServer, client: Client) -> None:
    expected = answer(text, prompt="hi", **GREEDY)
    got = client.complete("hi", model=FP32, **GREEDY)
    assert got.text == expected["choices"][0]["text"]
    assert (got.model, got.version, got.digest) == (FP32, "1", expected["system_fingerprint"])
    assert got.usage is not None
    assert got.usage.completion_tokens == expected["usage"]["completion_tokens"]
    assert got.timings.total_ms
    chat = client.chat("hi", model=f"{FP32}:1", logprobs=True, top_logprobs=2, **GREEDY)
    assert chat.text == answer(text, CHAT, messages=TALK, **GREEDY)["choices"][0]["message"]["content"]
    assert [len(score.top) for score in chat.choices[0].scores] == [2] * chat.usage.completion_tokens  # type: ignore[union-attr]
    assert len(client.complete(["a", "b"], model=INT8, n=2, max_tokens=2)) == 4


def test_our_client_raises_a_class_a_reason(client: Client) -> None:
    with pytest.raises(EmptyPrompt):
        client.complete("", model=FP32)
    with pytest.raises(ContextLengthExceeded):
        client.complete("hi", model=FP32, max_tokens=CONTEXT)
    with pytest.raises(InvalidRequest):
        client.chat("hi", model=FP32, temperature=9)
    with pytest.raises(NotSupported):
        client.chat("hi", model=FP32, extra={"tools": [{}]})


async def test_our_client_streams(text: LiveServer) -> None:
    body = {"model": FP32, "seed": 5, "max_tokens": 30}
    with Client(text.url) as client:
        stream = client.complete("Es war einmal", stream=True, **body)
        pieces = list(stream)
        whole = client.complete("Es war einmal", **body)
    assert "".join(piece.text for piece in pieces) == whole.text
    assert stream.result.choices == whole.choices
    assert stream.result.usage is not None
    async with AsyncClient(text.url) as aclient:
        again = await aclient.complete("Es war einmal", stream=True, **body)
        assert "".join([said async for said in again.text()]) == whole.text


def test_a_streaming_grpc_call_answers_whole(text: LiveServer) -> None:
    from refusals import infer_message

    from services.core.oip.messages import SERVICE, ModelStreamInferResponse

    message = infer_message(FP32)
    body = json.dumps({"prompt": "hi", **GREEDY}).encode()
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(body)
    with grpc.insecure_channel(text.grpc_address) as channel:
        call = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        (raw,) = call(iter([message.SerializeToString()]), timeout=30)
    said = ModelStreamInferResponse.FromString(raw)
    assert said.error_message == ""
    assert b"choices" in said.infer_response.raw_output_contents[0]
