"""The Open Inference Protocol's routes refuse bad tensors by name and place: JSON, raw bytes and gRPC alike."""

from __future__ import annotations

import json
from typing import Any

import etth1
import httpx
import pytest
from live_server import LiveServer
from refusals import check_grpc, check_http, infer_message
from tensor_cases import CASES, RAW_CASES, Case, as_binary, as_json, as_message, history

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_raw_case = pytest.mark.parametrize("case", [*CASES, *RAW_CASES], ids=lambda case: case.name)


def infer(server: LiveServer, body: Any, model: str = etth1.ITRANSFORMER) -> httpx.Response:
    return server.post(f"/v2/models/{model}/infer", json=body)


def infer_raw(server: LiveServer, header: bytes, raw: bytes, length: int | str | None = None) -> httpx.Response:
    path = f"/v2/models/{etth1.ITRANSFORMER}/infer"
    headers = {"Inference-Header-Content-Length": str(len(header) if length is None else length)}
    return server.post(path, content=header + raw, headers=headers)


@every_case
def test_json_tensors_are_refused_with_code_status_and_field(server: LiveServer, case: Case) -> None:
    check_http(infer(server, as_json(case.inputs, case.outputs)), 422, case.code, case.field)


@every_raw_case
def test_raw_tensors_are_refused_with_code_status_and_field(server: LiveServer, case: Case) -> None:
    document, raw = as_binary(case.inputs, case.outputs)
    check_http(infer_raw(server, json.dumps(document).encode(), raw), 422, case.code, case.field)


@every_raw_case
def test_grpc_tensors_are_refused_with_status_code_and_field(server: LiveServer, case: Case) -> None:
    message = as_message(etth1.ITRANSFORMER, case.inputs, case.outputs)
    check_grpc(server, message, "INVALID_ARGUMENT", case.code, case.field)


def _entry(**changed: Any) -> dict[str, Any]:
    """A good history input in JSON with one thing changed; None removes it."""
    whole = as_json([history()])["inputs"][0] | changed
    return {"inputs": [{key: value for key, value in whole.items() if value is not None}]}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_request", "inputs"),
        ({"inputs": {}}, "invalid_request", "inputs"),
        ({"inputs": ["history"]}, "invalid_request", "inputs[0]"),
        (_entry(data=None), "invalid_request", "history"),
        (_entry(data="1 2 3"), "invalid_request", "history"),
        (_entry(data=[1.0, [2.0]]), "tensor_size", "history"),
        (_entry(data=[None, 2.0]), "value_not_finite", "history"),
        (_entry(data=["1.0", "2.0"]), "value_not_numeric", "history"),
        (_entry(data=[True, False]), "value_not_numeric", "history"),
        (_entry(data=[{}, {}]), "value_not_numeric", "history"),
        (_entry(data=[[[1e39] * 7] * 96]), "value_not_finite", "history[0, 0, 0]"),
        (_entry(data=[2.5] * 672, datatype="INT64"), "value_not_numeric", "history"),
        (_entry(data=[300] * 672, datatype="INT8"), "value_out_of_range", "history"),
        (_entry(data=[-1] * 672, datatype="UINT64"), "value_out_of_range", "history"),
        (_entry(shape="1,96,7"), "tensor_shape", "history"),
        (_entry(shape=[1.0, 96, 7]), "tensor_shape", "history"),
        (_entry(shape=[True, 96, 7]), "tensor_shape", "history"),
        (_entry(shape=None), "tensor_shape", "history"),
        (_entry(datatype=32), "tensor_dtype", "history"),
        (_entry(datatype=["FP32"]), "tensor_dtype", "history"),
        (_entry(name=7), "invalid_request", "inputs[0].name"),
        (_entry(parameters=[]), "invalid_request", "parameters"),
        (_entry() | {"parameters": "none"}, "invalid_request", "parameters"),
        (_entry() | {"outputs": "forecast"}, "invalid_request", "outputs"),
        (_entry() | {"outputs": ["forecast"]}, "invalid_request", "outputs"),
        (_entry() | {"outputs": [{"name": 1}]}, "invalid_request", "outputs"),
    ],
    ids=lambda value: json.dumps(value)[-60:] if isinstance(value, dict) else None,
)
def test_json_that_is_no_inference_request_is_refused(
    server: LiveServer, body: dict[str, Any], code: str, field: str
) -> None:
    check_http(infer(server, body), 422, code, field)


@pytest.mark.parametrize("size", [2687, 2689, -1, 0, 2**70, "2688", 2688.0, True])
def test_a_raw_size_that_does_not_fit_is_refused(server: LiveServer, size: Any) -> None:
    document, raw = as_binary([history()])
    document["inputs"][0]["parameters"]["binary_data_size"] = size
    check_http(infer_raw(server, json.dumps(document).encode(), raw), 422, "tensor_size", "history")


def test_bytes_left_over_after_the_last_input_are_refused(server: LiveServer) -> None:
    document, raw = as_binary([history()])
    check_http(infer_raw(server, json.dumps(document).encode(), raw + b"more"), 422, "tensor_size", "inputs")


@pytest.mark.parametrize("length", ["99999", "-1", "many", "1.5", "9" * 30])
def test_a_header_length_that_cannot_be_is_refused(server: LiveServer, length: str) -> None:
    document, raw = as_binary([history()])
    response = infer_raw(server, json.dumps(document).encode(), raw, length)
    check_http(response, 400, "invalid_json", "Inference-Header-Content-Length")


def test_a_header_length_that_cuts_the_json_is_refused(server: LiveServer) -> None:
    document, raw = as_binary([history()])
    check_http(infer_raw(server, json.dumps(document).encode(), raw, 40), 400, "invalid_json", None)


def test_raw_contents_must_be_one_for_each_input(server: LiveServer) -> None:
    message = as_message(etth1.ITRANSFORMER, [history()])
    message.raw_input_contents.append(b"")
    check_grpc(server, message, "INVALID_ARGUMENT", "tensor_size", "raw_input_contents")


def test_typed_contents_of_the_wrong_number_are_refused(server: LiveServer) -> None:
    message = infer_message(etth1.ITRANSFORMER)
    entry = message.inputs.add(name="history", datatype="FP32", shape=[1, 96, 7])
    entry.contents.fp32_contents.extend([1.0] * 671)
    check_grpc(server, message, "INVALID_ARGUMENT", "tensor_size", "history")


def test_typed_contents_that_the_protocol_lacks_are_refused(server: LiveServer) -> None:
    message = infer_message(etth1.ITRANSFORMER)
    message.inputs.add(name="history", datatype="FP16", shape=[1, 96, 7]).contents.fp32_contents.extend([1.0] * 672)
    check_grpc(server, message, "INVALID_ARGUMENT", "tensor_dtype", "history")


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff\xfe", b""])
def test_a_native_request_in_a_tensor_must_be_a_json_object(server: LiveServer, text: bytes) -> None:
    message = infer_message(etth1.CARD)
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text)
    code = "invalid_request" if text == b"[]" else "invalid_json"
    check_grpc(server, message, "INVALID_ARGUMENT", code, None)


def test_a_native_request_must_be_one_element(server: LiveServer) -> None:
    body = {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [2], "data": ["{}", "{}"]}]}
    check_http(infer(server, body), 422, "tensor_shape", "request")


def test_the_native_answer_in_a_tensor_has_no_other_output(server: LiveServer) -> None:
    text = json.dumps(etth1.request())
    body = {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    check_http(infer(server, body | {"outputs": [{"name": "forecast"}]}), 422, "output_unknown", "outputs")


@pytest.mark.parametrize("path", ["", "/ready", "/config"])
def test_unknown_models_and_versions_are_refused_on_every_get_route(server: LiveServer, path: str) -> None:
    check_http(server.get(f"/v2/models/nobody{path}"), 404, "model_not_found", "model")
    check_http(server.get(f"/v2/models/{etth1.CARD}/versions/99{path}"), 404, "version_not_found", "version")


def test_unknown_models_and_versions_are_refused_on_infer(server: LiveServer) -> None:
    body = as_json([history()])
    check_http(infer(server, body, "nobody"), 404, "model_not_found", "model")
    check_http(infer(server, body, f"{etth1.CARD}/versions/99"), 404, "version_not_found", "version")


def test_unknown_models_and_versions_are_refused_over_grpc(server: LiveServer) -> None:
    check_grpc(server, as_message("nobody", [history()]), "NOT_FOUND", "model_not_found", "model")
    message = as_message(etth1.CARD, [history()])
    message.model_version = "99"
    check_grpc(server, message, "NOT_FOUND", "version_not_found", "version")
