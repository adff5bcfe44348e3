"""The OpenAPI document of everything our routes answer: built from the families' request and response models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from services.core.errors import CODES
from services.core.model import Family
from services.core.version import VERSION

_REF = "#/components/schemas/{model}"
_TASK_STATUSES = (400, 404, 413, 415, 422, 429, 499, 500, 503, 504)
_GET_STATUSES = (404, 422, 500, 503)

Json = dict[str, Any]


def openapi_document(families: Sequence[Family]) -> Json:
    """OpenAPI 3.1 document of a service with these families."""
    models: list[type[BaseModel]] = [m for f in families for m in (f.request, f.response)]
    _, definitions = models_json_schema([(m, "validation") for m in models], ref_template=_REF)
    paths: Json = {family.route: {"post": _task(family)} for family in families}
    paths |= {path: {"get": _get(summary, kind)} for path, summary, kind in _GETS}
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        paths[model] = {"get": _get("Tensors of a model", JSON)}
        paths[f"{model}/ready"] = {"get": _get("Whether the model is ready", JSON)}
        paths[f"{model}/config"] = {"get": _get("Batching configuration of a model", JSON)}
        paths[f"{model}/infer"] = {"post": _infer()}
    paths["/v2/repository/index"] = {"post": _index()}
    for path, operations in paths.items():
        _add_path_parameters(path, operations)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pressroom", "version": VERSION, "description": "Verified models of published papers."},
        "paths": paths,
        "components": {"schemas": {**definitions.get("$defs", {}), "Error": _error_schema()}},
    }


JSON, TEXT = "application/json", "text/plain"
_GETS = (
    ("/livez", "The process runs", TEXT),
    ("/readyz", "Models are loaded, verified and warm", TEXT),
    ("/metrics", "Prometheus metrics", TEXT),
    ("/v1/models", "What is served", JSON),
    ("/v1/models/{model}", "One served model, `name` or `name:version`", JSON),
    ("/v2", "The server and its protocol extensions", JSON),
    ("/v2/health/live", "The process runs", JSON),
    ("/v2/health/ready", "Models are loaded, verified and warm", JSON),
)


def _task(family: Family) -> Json:
    return {
        "summary": (family.request.__doc__ or "").strip().splitlines()[0],
        "operationId": family.name,
        "parameters": [_header("X-Request-Id", "string"), _header("X-Request-Timeout-Ms", "integer")],
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": _ref(family.request.__name__), "example": family.example}},
        },
        "responses": {
            "200": {"description": "The answer", "content": {JSON: {"schema": _ref(family.response.__name__)}}},
            **_errors(_TASK_STATUSES),
        },
    }


def _get(summary: str, kind: str) -> Json:
    schema = {"type": "object"} if kind == JSON else {"type": "string"}
    return {
        "summary": summary,
        "responses": {"200": {"description": summary, "content": {kind: {"schema": schema}}}, **_errors(_GET_STATUSES)},
    }


def _infer() -> Json:
    tensor = {
        "type": "object",
        "required": ["name", "datatype", "shape"],
        "properties": {
            "name": {"type": "string"},
            "datatype": {"type": "string"},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "data": {"type": "array", "items": {}},
            "parameters": {"type": "object"},
        },
    }
    body = {"type": "object", "required": ["inputs"], "properties": {"inputs": {"type": "array", "items": tensor}}}
    return {
        "summary": "Run a model on tensors (Open Inference Protocol; raw tensors may follow the JSON)",
        "parameters": [_header("Inference-Header-Content-Length", "integer")],
        "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
        "responses": {
            "200": {"description": "Output tensors", "content": {JSON: {"schema": {"type": "object"}}}},
            **_errors(_TASK_STATUSES),
        },
    }


def _index() -> Json:
    return {
        "summary": "What is served and what was refused",
        "requestBody": {"required": False, "content": {JSON: {"schema": {"type": "object"}}}},
        "responses": {
            "200": {"description": "Models", "content": {JSON: {"schema": {"type": "array", "items": {}}}}},
            **_errors(_TASK_STATUSES),
        },
    }


def _errors(statuses: Iterable[int]) -> Json:
    named = {s: [f"`{c}`: {e.meaning}" for c, e in CODES.items() if e.http == s] for s in statuses}
    content = {JSON: {"schema": _ref("Error")}}
    return {str(s): {"description": "\n\n".join(lines), "content": content} for s, lines in named.items()}


def _error_schema() -> Json:
    text = {"type": ["string", "null"]}
    properties = {
        "code": {"type": "string", "enum": list(CODES)},
        "message": {"type": "string"},
        "field": text,
        "hint": text,
        "request_id": {"type": "string"},
        "retry_after_ms": {"type": "integer"},
    }
    required = ["code", "message", "field", "hint", "request_id"]
    error = {"type": "object", "required": required, "properties": properties}
    return {"type": "object", "required": ["error"], "properties": {"error": error}}


def _ref(name: str) -> Json:
    return {"$ref": _REF.format(model=name)}


def _header(name: str, kind: str) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": {"type": kind}}


def _add_path_parameters(path: str, operations: Json) -> None:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    for operation in operations.values():
        given = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
        operation["parameters"] = given + operation.get("parameters", [])
