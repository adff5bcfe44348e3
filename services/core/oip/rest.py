"""The protocol's REST routes."""

from __future__ import annotations

from typing import Any

from services.core.control import read_command
from services.core.errors import ApiError
from services.core.http.content import read_json_object
from services.core.http.exchange import Exchange, Response, json_response
from services.core.http.routes import Params, Routes
from services.core.oip.codec import HEADER_LENGTH, decode_request, encode_response
from services.core.oip.documents import EXTENSIONS, SERVER_NAME, model_config, model_metadata, repository_index
from services.core.oip.inference import infer
from services.core.repository import INFER_ROUTE
from services.core.serving import Serving
from services.core.version import VERSION


class OipRoutes:
    """Handlers of /v2/..."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._repository = serving.repository
        self._settings = serving.settings

    def register(self, routes: Routes) -> None:
        routes.add("GET", "/v2", self.server)
        routes.add("GET", "/v2/health/live", self.live, scope=None, probe=True)
        routes.add("GET", "/v2/health/ready", self.ready, scope=None, probe=True)
        routes.add("POST", "/v2/repository/index", self.index)
        routes.add("POST", "/v2/repository/models/{name}/load", self.load, scope="admin")
        routes.add("POST", "/v2/repository/models/{name}/unload", self.unload, scope="admin")
        for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
            routes.add("GET", model, self.metadata, label="/v2/models/{name}")
            ready = "/v2/models/{name}/ready"
            routes.add("GET", f"{model}/ready", self.model_ready, label=ready, scope=None, probe=True)
            routes.add("GET", f"{model}/config", self.config, label="/v2/models/{name}/config")
            routes.add("POST", f"{model}/infer", self.infer, label=INFER_ROUTE)

    async def server(self, exchange: Exchange, params: Params) -> Response:
        return json_response({"name": SERVER_NAME, "version": VERSION, "extensions": EXTENSIONS})

    async def live(self, exchange: Exchange, params: Params) -> Response:
        return json_response({"live": True})

    async def ready(self, exchange: Exchange, params: Params) -> Response:
        if not self._repository.ready:
            raise ApiError("model_not_ready", self._repository.why_not_ready())
        return json_response({"ready": True})

    async def index(self, exchange: Exchange, params: Params) -> Response:
        body = await exchange.read_body(self._settings.body_limit_bytes)
        only_ready = bool(body) and read_json_object(body).get("ready") is True
        return json_response([m for m in repository_index(self._repository) if m["state"] == "READY" or not only_ready])

    async def load(self, exchange: Exchange, params: Params) -> Response:
        command = read_command("load", params["name"], await self._parameters(exchange))
        model = await self._repository.command(command)
        assert model is not None
        return json_response({"name": model.name, "version": model.version, "digest": model.digest, "state": "READY"})

    async def unload(self, exchange: Exchange, params: Params) -> Response:
        command = read_command("unload", params["name"], await self._parameters(exchange))
        await self._repository.command(command)
        return json_response({"name": command.name, "version": command.version, "state": "UNAVAILABLE"})

    async def _parameters(self, exchange: Exchange) -> dict[str, Any]:
        body = await exchange.read_body(self._settings.body_limit_bytes)
        parameters = read_json_object(body).get("parameters", {}) if body else {}
        if not isinstance(parameters, dict):
            raise ApiError("invalid_request", "parameters must be an object", field="parameters")
        return parameters

    async def metadata(self, exchange: Exchange, params: Params) -> Response:
        model = self._repository.find(params["name"], params.get("version"))
        return json_response(model_metadata(model, self._repository.versions(model.name)))

    async def model_ready(self, exchange: Exchange, params: Params) -> Response:
        model = self._repository.find(params["name"], params.get("version"))
        return json_response({"name": model.name, "ready": True})

    async def config(self, exchange: Exchange, params: Params) -> Response:
        return json_response(model_config(self._repository.find(params["name"], params.get("version"))))

    async def infer(self, exchange: Exchange, params: Params) -> Response:
        call = exchange.call
        model = call.model = self._repository.find(params["name"], params.get("version"), call)
        body = await exchange.read_body(self._settings.body_limit_bytes)
        request = decode_request(body, exchange.headers.get(HEADER_LENGTH))
        outputs, parameters = await exchange.until_disconnect(
            infer(self._serving, model, request.tensors, request.outputs, exchange.call)
        )
        return encode_response(model.name, model.version, outputs, parameters, request)
