"""/docs and /openapi.json: valid OpenAPI 3.1 that describes every route we answer, offline; examples that hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import etth1
import pytest
from etth1 import ITRANSFORMER
from live_server import LiveServer

from services.core.errors import CODES
from services.forecast_schema import ForecastRequest, ForecastResponse

METHODS = {"get", "post", "put", "delete", "head", "options", "patch", "trace"}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def document(server: LiveServer) -> Json:
    response = server.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    found: Json = response.json()
    return found


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(node: Any) -> Iterator[str]:
    """Every $ref below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def test_the_document_has_the_structure_of_openapi_3_1(document: Json) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"]
    assert document["info"]["version"]
    for path, method, operation in operations(document):
        assert path.startswith("/")
        assert method in METHODS
        assert operation["summary"]
        assert operation["responses"]
        for status, response in operation["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d", status)
            assert response["description"]
            for kind, media in response.get("content", {}).items():
                assert "/" in kind
                assert isinstance(media["schema"], dict)


def test_every_reference_leads_somewhere(document: Json) -> None:
    found = set(references(document))
    assert found
    for reference in found:
        node: Any = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert isinstance(node, dict)


def test_path_parameters_are_those_of_the_path(document: Json) -> None:
    for path, _, operation in operations(document):
        declared = [p for p in operation.get("parameters", []) if p["in"] == "path"]
        assert sorted(p["name"] for p in declared) == sorted(re.findall(r"{(\w+)}", path))
        assert all(p["required"] is True and p["schema"] for p in declared)


def test_operation_ids_are_unique(document: Json) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document) if "operationId" in operation]
    assert len(ids) == len(set(ids))


def test_every_described_path_is_answered(server: LiveServer, document: Json) -> None:
    for path, method, _ in operations(document):
        concrete = path.replace("{name}", ITRANSFORMER).replace("{model}", ITRANSFORMER).replace("{version}", "1")
        answer = server.request(method.upper(), concrete, json={} if method == "post" else None)
        assert answer.status_code not in (404, 405, 500) or answer.json()["error"]["code"] == "version_not_found", path


def test_the_main_routes_are_described(document: Json) -> None:
    described = {(method, path) for path, method, _ in operations(document)}
    assert described >= {
        ("post", etth1.FORECAST),
        ("get", "/v1/models"),
        ("get", "/livez"),
        ("get", "/readyz"),
        ("get", "/metrics"),
        ("post", "/v2/models/{name}/infer"),
        ("post", "/v2/models/{name}/versions/{version}/infer"),
        ("get", "/v2/health/ready"),
    }


def test_every_error_code_is_described_with_its_status(document: Json) -> None:
    codes = document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert codes == list(CODES)
    responses = document["paths"][etth1.FORECAST]["post"]["responses"]
    for code in ("history_too_short", "model_not_found", "queue_full", "payload_too_large", "deadline_exceeded"):
        assert f"`{code}`" in responses[str(CODES[code].http)]["description"]


def test_the_forecast_schemas_are_those_of_the_code(document: Json) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["ForecastRequest"]["properties"].keys() == ForecastRequest.model_fields.keys()
    assert schemas["ForecastResponse"]["properties"].keys() == ForecastResponse.model_fields.keys()
    operation = document["paths"][etth1.FORECAST]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/ForecastRequest"}
    assert answer == {"$ref": "#/components/schemas/ForecastResponse"}


def _examples(operation: Json, schema: Json) -> list[Any]:
    media = operation["requestBody"]["content"]["application/json"]
    named = [entry["value"] for entry in media.get("examples", {}).values()]
    return [*([media["example"]] if "example" in media else []), *named, *schema.get("examples", [])]


def test_the_example_request_is_one_and_is_answered(server: LiveServer, document: Json) -> None:
    operation = document["paths"][etth1.FORECAST]["post"]
    examples = _examples(operation, document["components"]["schemas"]["ForecastRequest"])
    assert examples, "the forecast route shows no example request"
    for example in examples:
        ForecastRequest.model_validate(example)
        answer = server.post(etth1.FORECAST, json=example)
        assert answer.status_code == 200, answer.text[:300]
        ForecastResponse.model_validate(answer.json())


def test_the_requests_and_answers_of_these_tests_fit_the_documented_models(server: LiveServer) -> None:
    for request in (
        etth1.request(),
        etth1.request(etth1.series(id="a"), etth1.series(timestamps=etth1.epochs()), horizon=12),
        etth1.request(etth1.series(timestamps=None), model=etth1.CARD),
        {"model": ITRANSFORMER, "series": etth1.series(timestamps=None, start=etth1.stamps()[0], freq="h")},
    ):
        ForecastRequest.model_validate(request)
        ForecastResponse.model_validate(server.post(etth1.FORECAST, json=request).raise_for_status().json())


@pytest.mark.parametrize("path", ["/docs", "/"])
def test_the_page_of_the_routes_needs_no_other_host(server: LiveServer, path: str) -> None:
    response = server.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "/openapi.json" in response.text or "openapi.json" in response.text
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", response.text)


def test_both_names_of_the_document_give_the_same(server: LiveServer, document: Json) -> None:
    assert server.get("/docs.json").json() == document
