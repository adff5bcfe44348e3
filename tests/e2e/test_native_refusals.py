"""The native route refuses what it cannot use, by name and place; so does the same JSON inside a BYTES tensor."""

from __future__ import annotations

import json
from typing import Any

import etth1
import httpx
import pytest
from live_server import LiveServer
from native_cases import CASES, VALUES, Case
from refusals import check_grpc, check_http, infer_message

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def post(server: LiveServer, body: Any) -> httpx.Response:
    return server.post(etth1.FORECAST, json=body)


def bytes_tensor(body: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps(body)]}]}


@every_case
def test_native_json_is_refused_with_code_status_and_place(server: LiveServer, case: Case) -> None:
    check_http(post(server, case.request()), 422, case.code, case.field)


@every_case
def test_the_same_json_in_a_tensor_is_refused_alike_over_rest(server: LiveServer, case: Case) -> None:
    path = f"/v2/models/{etth1.ITRANSFORMER}/infer"
    check_http(server.post(path, json=bytes_tensor(case.request())), 422, case.code, case.field)


@every_case
def test_the_same_json_in_a_tensor_is_refused_alike_over_grpc(server: LiveServer, case: Case) -> None:
    message = infer_message(etth1.ITRANSFORMER)
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(
        json.dumps(case.request()).encode()
    )
    check_grpc(server, message, "INVALID_ARGUMENT", case.code, case.field)


def test_a_refusal_says_what_came_what_was_expected_and_what_to_do(server: LiveServer) -> None:
    error = check_http(post(server, etth1.request(etth1.series(length=72))), 422, "history_too_short", VALUES)
    assert "72" in error["message"]
    assert "96" in error["message"]
    assert "96" in error["hint"]
    only_one = etth1.series(values={"OT": etth1.series()["values"]["OT"]})
    error = check_http(post(server, etth1.request(only_one)), 422, "columns_missing", VALUES)
    assert "HUFL, HULL, MUFL, MULL, LUFL, LULL" in error["message"]
    assert ", ".join(etth1.COLUMNS) in error["hint"]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused_by_their_place(server: LiveServer, constant: str) -> None:
    request = etth1.request()
    request["series"][0]["values"]["LULL"][33] = float(constant.replace("Infinity", "inf"))
    body = json.dumps(request)  # Python writes NaN and Infinity as such
    assert constant in body
    response = server.post(etth1.FORECAST, content=body)
    check_http(response, 422, "value_not_finite", f"{VALUES}.LULL[33]")


@pytest.mark.parametrize("digits", ["1e999", "-1e999"])
def test_a_number_beyond_float64_is_refused_by_name(server: LiveServer, digits: str) -> None:
    body = json.dumps(etth1.request()).replace(json.dumps(etth1.series()["values"]["HULL"][5]), digits, 1)
    response = server.post(etth1.FORECAST, content=body)
    assert response.status_code in (400, 422)
    assert response.json()["error"]["code"] in ("invalid_json", "value_not_finite")


@pytest.mark.parametrize(
    ("change", "status", "code", "field"),
    [
        ({"model": "nobody"}, 404, "model_not_found", "model"),
        ({"model": "nobody:1"}, 404, "model_not_found", "model"),
        ({"model": ""}, 404, "model_not_found", "model"),
        ({"model": f"{etth1.ITRANSFORMER}:99"}, 404, "version_not_found", "version"),
        ({"version": "99"}, 404, "version_not_found", "version"),
        ({"model": f"{etth1.ITRANSFORMER}:1", "version": "2"}, 422, "invalid_request", "version"),
        ({"model": 7}, 422, "invalid_request", "model"),
        ({"version": 1}, 422, "invalid_request", "version"),
        ({"model": None}, 422, "invalid_request", "model"),
    ],
    ids=str,
)
def test_an_unknown_model_or_version_is_refused(
    server: LiveServer, change: dict[str, Any], status: int, code: str, field: str
) -> None:
    error = check_http(post(server, etth1.request() | change), status, code, field)
    if code.endswith("not_found"):
        assert "served: " in error["hint"]
    if change == {"model": None}:
        assert all(name in error["hint"] for name in etth1.MODELS.values())


@pytest.mark.parametrize("path", ["/v1/models/nobody", "/v1/models/nobody:1"])
def test_an_unknown_model_is_not_described(server: LiveServer, path: str) -> None:
    check_http(server.get(path), 404, "model_not_found", "model")


def test_an_unknown_version_is_not_described(server: LiveServer) -> None:
    check_http(server.get(f"/v1/models/{etth1.CARD}:99"), 404, "version_not_found", "version")
