"""The application uvicorn runs: our routes first, BentoML's application behind them, one error shape for both."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from services.core.errors import CODES, ApiError
from services.core.http.exchange import JSON, DisconnectedError, Exchange, Receive, Response, Scope, Send
from services.core.http.express import Express
from services.core.http.routes import Route, Routes
from services.core.metrics import InFlight, count_unrouted
from services.core.serving import Serving

log = logging.getLogger("pressroom.http")

_BY_STATUS = {
    400: "invalid_request", 404: "route_not_found", 405: "method_not_allowed", 413: "payload_too_large",
    415: "unsupported_media_type", 422: "invalid_request", 429: "queue_full", 503: "model_not_ready",
    504: "deadline_exceeded",
}  # fmt: skip
_PLAIN = {
    "route_not_found": ("this path does not exist", "GET /docs lists the routes"),
    "method_not_allowed": ("this path does not take this method", "GET /docs lists the routes"),
}


class Front:
    """ASGI application."""

    def __init__(self, routes: Routes, serving: Serving, behind: Any) -> None:
        self._routes = routes
        self._gate = serving.gate
        self._journal = serving.journal
        self._behind = behind
        self._timeout_ms = serving.settings.request_timeout_ms
        self._in_flight = InFlight("http")
        self.express = Express(routes, serving, self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._behind(scope, receive, send)
            return
        found = self._routes.find(scope["path"])
        if found is None:
            await self._pass_on(scope, receive, send)
            return
        methods, params = found
        method = "GET" if scope["method"] == "HEAD" and "HEAD" not in methods else scope["method"]
        route = methods.get(method)
        if route is None:
            await self._refuse_method(methods, scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, route.label, self._timeout_ms)
        self._in_flight.count += 1
        try:
            await self._handle(route, exchange, params)
        finally:
            self._in_flight.count -= 1

    async def _handle(self, route: Route, exchange: Exchange, params: dict[str, str]) -> None:
        code = "ok"
        try:
            response = await self._admitted(route, exchange, params)
        except DisconnectedError:
            self._close(route, exchange, "cancelled")
            return
        except Exception as fault:
            error = ApiError.of(fault)
            if error.code == "internal":
                log.exception("request %s failed", exchange.call.request_id)
            code, response = error.code, exchange.refusal(error, route.envelope)
        if response is not None and not exchange.streamed:
            await exchange.respond(response)
        self._close(route, exchange, code)

    async def _admitted(self, route: Route, exchange: Exchange, params: dict[str, str]) -> Response | None:
        admission = self._gate.admit(route.scope, exchange.secret(), exchange.local_address)
        exchange.key_id = exchange.call.key_id = admission.key_id
        exchange.extra_headers += [(k.encode(), v.encode()) for k, v in admission.headers.items()]
        exchange.read_wishes()
        if route.probe:
            return await route.handler(exchange, params)
        with self._gate.inside():
            return await route.handler(exchange, params)

    def _close(self, route: Route, exchange: Exchange, code: str) -> None:
        """Count a refusal (answers are counted where they are made) and write the request down."""
        if not exchange.call.batch_rows:
            exchange.call.finish()
        if code != "ok":
            self._count(route, exchange, code)
        if not route.probe:
            self._journal.finished(exchange.call, code, exchange.key_id)

    def _count(self, route: Route, exchange: Exchange, code: str) -> None:
        if exchange.call.model is not None:
            exchange.call.model.metrics.refused(exchange.call, code)
        elif not route.probe:
            count_unrouted(route.label, "http", code)

    async def _refuse_method(self, methods: dict[str, Route], scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, "", self._timeout_ms)
        allowed = ", ".join(sorted(methods))
        error = ApiError("method_not_allowed", f"this path takes {allowed}", hint="GET /docs lists the routes")
        count_unrouted(next(iter(methods.values())).label, "http", error.code)
        refusal = exchange.refusal(error)
        await exchange.respond(Response(refusal.body, refusal.status, JSON, [(b"allow", allowed.encode())]))

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """BentoML's own routes (documentation assets, schema); its errors leave in our envelope."""
        exchange = Exchange(scope, receive, send, "", self._timeout_ms)
        replaced = False

        async def in_our_shape(message: MutableMapping[str, Any]) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and message["status"] >= 400:
                replaced = True
                code = _BY_STATUS.get(message["status"], "internal")
                text, hint = _PLAIN.get(code, (CODES[code].meaning, None))
                count_unrouted("", "http", code)
                await exchange.respond(exchange.refusal(ApiError(code, text, hint=hint)))
            elif not replaced:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (b"x-request-id", exchange.call.request_id.encode())]
                await send(message)

        await self._behind(scope, receive, in_our_shape)
