"""The OpenAPI document of everything our routes answer: built from the families' request and response models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from services.core.call import PRIORITIES
from services.core.errors import CODES
from services.core.http.openapi_schemas import SCHEMAS, Json, record, ref
from services.core.model import Family, Task
from services.core.version import VERSION

JSON, TEXT, HTML, RAW = "application/json", "text/plain", "text/html", "application/octet-stream"
EVENTS = "text/event-stream"

_KEYED = (401, 403, 429, 500)  # every route that may need a key
_READ = (*_KEYED, 422)
_MODEL = (*_READ, 404, 503)
_BODY = (*_READ, 400, 413, 415)
_TASK = (*_BODY, 404, 499, 503, 504)
_ADMIN = (*_BODY, 404, 409, 503)

_Row = tuple[str, str, str, tuple[int, ...]]  # path, summary, content type or schema, statuses of refusals

_OPEN: tuple[_Row, ...] = (
    ("/livez", "The process runs", TEXT, (500,)),
    ("/healthz", "The process runs", TEXT, (500,)),
    ("/readyz", "Models are loaded, verified and warm", TEXT, (500, 503)),
    ("/docs", "This document, to read", HTML, (422, 429, 500)),
    ("/openapi.json", "This document", JSON, (422, 429, 500)),
    ("/metrics", "Prometheus metrics", TEXT, _READ),
)
_DOCUMENTS: tuple[_Row, ...] = (
    ("/v1/models", "What is served", "ModelList", _READ),
    ("/v1/models/{model}", "One served model, `name` or `name:version`, in full", "ModelDetails", _MODEL),
    ("/v2", "The server and its protocol extensions", "ServerMetadata", _READ),
    ("/v2/health/live", "The process runs", "Live", (500,)),
    ("/v2/health/ready", "Models are loaded, verified and warm", "Ready", (500, 503)),
)
_OF_MODEL: tuple[_Row, ...] = (
    ("", "Tensors of a model", "ModelMetadata", _MODEL),
    ("/ready", "Whether the model is ready", "ModelReady", (404, 500, 503)),
    ("/config", "Batching configuration of a model", "ModelConfig", _MODEL),
)
_REQUEST_ID = {"description": "the caller's X-Request-Id, or a new one", "schema": {"type": "string"}}
_RETRY_AFTER = {"description": "seconds to wait", "schema": {"type": "integer", "minimum": 1}}


def openapi_document(families: Sequence[Family]) -> Json:
    """OpenAPI 3.1 document of a service with these families."""
    tasks = [task for family in families for task in family.tasks]
    models: list[type[BaseModel]] = [m for task in tasks for m in (task.request, task.response)]
    _, definitions = models_json_schema(
        [(m, "validation") for m in models], ref_template="#/components/schemas/{model}"
    )
    paths: Json = {}
    model = tasks[0].example["model"]
    places = {name: _place(name, example) for name, example in (("name", model), ("model", model), ("version", "1"))}
    for method, path, operation in _operations(tasks):
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        operation["parameters"] = [*(places[name] for name in names), *operation["parameters"]]
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pressroom", "version": VERSION, "description": "Verified models of published papers."},
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {"schemas": {**definitions.get("$defs", {}), **SCHEMAS}, "securitySchemes": _security()},
    }


def _operations(tasks: Sequence[Task]) -> Iterator[tuple[str, str, Json]]:
    """Method, path and operation of every route."""
    for task in tasks:
        yield "post", task.route, _task(task)
    for path, summary, kind, statuses in _OPEN:
        schema = {"type": "object"} if kind == JSON else {"type": "string"}
        yield "get", path, _operation(summary, {kind: {"schema": schema}}, statuses, _wishes(statuses))
    for path, summary, name, statuses in _DOCUMENTS:
        yield "get", path, _document(summary, name, statuses)
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        for end, summary, name, statuses in _OF_MODEL:
            yield "get", model + end, _document(summary, name, statuses)
        yield "post", f"{model}/infer", _infer(tasks[0].example)
    yield "post", "/v2/repository/index", _index()
    yield "post", "/v2/repository/models/{name}/load", _change("Load a version", "LoadCommand", "Loaded")
    yield "post", "/v2/repository/models/{name}/unload", _change("Unload a version", "UnloadCommand", "Unloaded")


def _task(task: Task) -> Json:
    summary = (task.request.__doc__ or "").strip().splitlines()[0]
    answer: Json = {JSON: {"schema": ref(task.response.__name__)}}
    if task.streamed:
        answer[EVENTS] = {"schema": {}}  # of chunks in the manner of the whole answer; OpenAPI 3.1 has no word for it
    request = {JSON: {"schema": ref(task.request.__name__), "example": task.example}}
    if task.files:
        parts = {name: {"type": "string", "contentMediaType": RAW} for name in task.files}
        request["multipart/form-data"] = {"schema": record({}, {**parts, "request": ref(task.request.__name__)})}
    operation = _operation(summary, answer, _TASK, _wishes(_TASK, pinned=True))
    return operation | {"operationId": task.name, "requestBody": {"required": True, "content": request}}


def _document(summary: str, name: str, statuses: Iterable[int]) -> Json:
    return _operation(summary, {JSON: {"schema": ref(name)}}, statuses, _wishes(statuses))


def _infer(native: Json) -> Json:
    """The example wraps a task route's request, because every model takes that."""
    summary = "Run a model on tensors (Open Inference Protocol; raw tensors may follow the JSON)"
    length = _header("Inference-Header-Content-Length", {"type": "integer", "minimum": 0})
    answer = {JSON: {"schema": ref("InferResponse")}, RAW: {"schema": {}}}
    operation = _operation(summary, answer, _TASK, [*_wishes(_TASK, pinned=True), length])
    tensor = {"name": "request", "datatype": "BYTES", "shape": [1], "data": [json.dumps(native)]}
    request = {JSON: {"schema": ref("InferRequest"), "example": {"inputs": [tensor]}}, RAW: {"schema": {}}}
    return operation | {"requestBody": {"required": True, "content": request}}


def _index() -> Json:
    operation = _document("What is served and what was refused", "Index", _BODY)
    return operation | {"requestBody": {"content": {JSON: {"schema": ref("IndexRequest")}}}}


def _change(summary: str, command: str, answer: str) -> Json:
    operation = _document(f"{summary} (needs a key of scope admin)", answer, _ADMIN)
    return operation | {
        "requestBody": {"content": {JSON: {"schema": ref(command)}}},
        "security": [{"bearer": []}, {"key": []}],
    }


def _operation(summary: str, answer: Json, statuses: Iterable[int], headers: list[Json]) -> Json:
    success = {"description": summary, "content": answer, "headers": {"X-Request-Id": _REQUEST_ID}}
    return {"summary": summary, "parameters": headers, "responses": {"200": success, **_errors(statuses)}}


def _errors(statuses: Iterable[int]) -> Json:
    named = {s: [f"`{c}`: {e.meaning}" for c, e in CODES.items() if e.http == s] for s in sorted(statuses)}
    content = {JSON: {"schema": ref("Error")}}
    return {
        str(status): {
            "description": "\n\n".join(lines),
            "content": content,
            "headers": {"X-Request-Id": _REQUEST_ID} | ({"Retry-After": _RETRY_AFTER} if status == 429 else {}),
        }
        for status, lines in named.items()
    }


def _wishes(statuses: Iterable[int], pinned: bool = False) -> list[Json]:
    """Headers a caller may send; those with a wrong value are refused (422), and only where that is documented."""
    headers = [_header("X-Request-Id", {"type": "string"})]
    if 422 in statuses:
        headers.append(_header("X-Request-Timeout-Ms", {"type": "integer", "minimum": 1, "maximum": 10**9 - 1}))
        headers.append(_header("X-Priority", {"type": "string", "enum": list(PRIORITIES)}))
    if pinned:
        headers.append(_header("X-Model-Version", {"type": "string"}))
    return headers


def _place(name: str, example: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": example}


def _header(name: str, schema: Json) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": schema}


def _security() -> dict[str, Any]:
    return {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
