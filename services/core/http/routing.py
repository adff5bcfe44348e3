"""Our HTTP routes: health, metrics, the list of models, the families' tasks, the protocol, the documentation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from services.core import metrics
from services.core.errors import ApiError
from services.core.http.content import read_json_object
from services.core.http.exchange import Exchange, Response, json_response
from services.core.http.form import read_form
from services.core.http.openapi import openapi_document
from services.core.http.routes import Handler, Params, Routes
from services.core.model import Family, ServedModel, Task
from services.core.oip.rest import OipRoutes
from services.core.repository import Repository
from services.core.serving import Serving
from services.core.task import answer_task, stream_task
from services.ui import pages

_DOCS_PAGE = (Path(__file__).parent / "docs.html").read_bytes()


def build_routes(serving: Serving) -> Routes:
    """Every route of a service that serves the repository's families."""
    routes = Routes()
    repository = serving.repository
    system = SystemRoutes(repository)
    routes.add("GET", "/livez", system.livez, scope=None, probe=True)
    routes.add("GET", "/healthz", system.livez, scope=None, probe=True)
    routes.add("GET", "/readyz", system.readyz, scope=None, probe=True)
    routes.add("GET", "/metrics", system.metrics, scope="metrics", probe=True)
    for path in ("/", "/docs"):
        routes.add("GET", path, system.docs, label="/docs", scope=None)
    for path in ("/openapi.json", "/docs.json"):
        routes.add("GET", path, system.openapi, label="/openapi.json", scope=None)
    routes.add("GET", "/v1/models", system.models)
    routes.add("GET", "/v1/models/{model}", system.model)
    for family in repository.families.values():
        for task in family.tasks:
            routes.add("POST", task.route, _task(serving, family, task), envelope=task.envelope)
    OipRoutes(serving).register(routes)
    if serving.settings.ui:
        pages.register(routes)
    return routes


def _task(serving: Serving, family: Family, task: Task) -> Handler:
    async def handler(exchange: Exchange, params: Params) -> Response | None:
        form = _is_form(exchange, task)
        body = await exchange.read_body(serving.settings.body_limit_bytes)
        request = read_form(body, form, task.files, task.lists) if form else read_json_object(body)
        if task.streamed and request.get("stream") is True:
            work = stream_task(serving, family.name, request, exchange.call)
            await exchange.stream(await exchange.until_disconnect(work), task.envelope)
            return None
        return json_response(await exchange.until_disconnect(answer_task(serving, family.name, request, exchange.call)))

    return handler


def _is_form(exchange: Exchange, task: Task) -> bytes:
    """The content type of a form, for tasks that take files; else nothing, and the body is JSON."""
    sent = exchange.headers.get(b"content-type", b"application/json")
    kind = sent.partition(b";")[0].strip().lower()
    if kind == b"multipart/form-data" and task.files:
        return sent
    if kind != b"application/json":
        raise ApiError(
            "unsupported_media_type",
            f"content type {kind.decode('latin-1')[:60]!r} is not read here",
            field="Content-Type",
            hint="send application/json" + (" or multipart/form-data" if task.files else ""),
        )
    return b""


class SystemRoutes:
    """Routes that concern the server rather than one model."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._openapi = openapi_document(list(repository.families.values()))

    async def livez(self, exchange: Exchange, params: Params) -> Response:
        return Response(b"\n", content_type=b"text/plain; charset=utf-8")

    async def readyz(self, exchange: Exchange, params: Params) -> Response:
        if not self._repository.ready:
            raise ApiError("model_not_ready", self._repository.why_not_ready())
        return Response(b"\n", content_type=b"text/plain; charset=utf-8")

    async def metrics(self, exchange: Exchange, params: Params) -> Response:
        metrics.write_all()
        text = await asyncio.to_thread(metrics.exposition)
        return Response(text, content_type=metrics.CONTENT_TYPE.encode())

    async def docs(self, exchange: Exchange, params: Params) -> Response:
        return Response(_DOCS_PAGE, content_type=b"text/html; charset=utf-8")

    async def openapi(self, exchange: Exchange, params: Params) -> Response:
        return json_response(self._openapi)

    async def models(self, exchange: Exchange, params: Params) -> Response:
        newest: dict[str, ServedModel] = {}
        for model in self._repository.models():
            newest.setdefault(model.name, model)
        return json_response({"object": "list", "data": [self._describe(m) for m in newest.values()]})

    async def model(self, exchange: Exchange, params: Params) -> Response:
        name, _, version = params["model"].partition(":")
        model = self._repository.find(name, version or None)
        return json_response(self._describe(model) | await asyncio.to_thread(model.details))

    def _describe(self, model: ServedModel) -> dict[str, Any]:
        return {**model.describe(), "versions": self._repository.versions(model.name)}
