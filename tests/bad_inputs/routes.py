"""Paths that do not exist, methods they do not take, models and versions nobody serves."""

from __future__ import annotations

import etth1

from .case import FORECAST, INFER, HttpCase, infer, tensor

_CARD = f"/v2/models/{etth1.CARD}"


def _nowhere(path: str, method: str = "GET") -> HttpCase:
    return HttpCase(f"{method} {path[:60]}", path, b"", 404, "route_not_found", None, method)


def _method(method: str, path: str) -> HttpCase:
    return HttpCase(f"{method} {path}", path, b"", 405, "method_not_allowed", None, method)


def _model(path: str) -> HttpCase:
    return HttpCase(f"GET {path[:60]}", path, b"", 404, "model_not_found", "model", "GET")


def _version(path: str) -> HttpCase:
    return HttpCase(f"GET {path}", path, b"", 404, "version_not_found", "version", "GET")


CASES = (
    *map(_nowhere, (
        "/v1", "/v1/", "/v1/models/", "/v1/models/a/b", "/v1/forecast/", "/v1/forecasts", "/V1/FORECAST", "/v2/",
        "/v2/models", "/v2/models/", "/v2/models/card-etth1/", "/v2/models/card-etth1/infer/", "/v2/health",
        "/v2/health/started", "/v3/models", "//v1/models", "/livez/x", "/metrics/", "/admin", "/.env",
        "/.git/config", "/wp-login.php", "/v1/models/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
        "/v2/models/card-etth1/versions", "/v2/models/card-etth1/versions/1/", "/static_content/nothing.js", "/%00",
        "/" + "a" * 4000, "*",
    )),
    *(_nowhere(path, "POST") for path in ("/v1/embeddings", "/v1/responses", "/predict", "/invocations")),
    *(_method(method, FORECAST) for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")),
    *(_method(method, INFER) for method in ("GET", "PUT", "DELETE")),
    *(_method("POST", path) for path in ("/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/v1/models", "/v2",
                                         "/v2/health/live", "/v2/health/ready", _CARD, f"{_CARD}/ready",
                                         f"{_CARD}/config", f"{_CARD}/versions/1", "/v1/models/card-etth1")),
    *(_method("GET", path) for path in ("/v2/repository/index", "/v2/repository/models/card-etth1/load",
                                        "/v2/repository/models/card-etth1/unload")),
    *map(_model, (
        "/v1/models/nobody", "/v1/models/nobody:1", "/v1/models/:1", "/v1/models/CARD-ETTH1", "/v1/models/%ff%fe",
        "/v1/models/card-etth1%20", "/v2/models/nobody", "/v2/models/nobody/ready", "/v2/models/nobody/config",
        "/v2/models/nobody/versions/1", "/v2/models/nobody/versions/1/ready", "/v2/models/nobody/versions/1/config",
        "/v2/models/card-etth1:1", "/v2/models/..", "/v2/models/%00", "/v2/models/" + "m" * 3000,
    )),
    *map(_version, (
        "/v1/models/card-etth1:0", "/v1/models/card-etth1:2", "/v1/models/card-etth1:latest",
        "/v1/models/card-etth1:1:1", f"{_CARD}/versions/2", f"{_CARD}/versions/01", f"{_CARD}/versions/-1",
        f"{_CARD}/versions/1.0", f"{_CARD}/versions/%C2%B9", f"{_CARD}/versions/2/ready", f"{_CARD}/versions/2/config",
    )),
    HttpCase("infer by a model nobody serves", "/v2/models/nobody/infer", infer(tensor()), 404, "model_not_found",
             "model"),
    HttpCase("infer by a version nobody serves", f"{_CARD}/versions/2/infer", infer(tensor()), 404,
             "version_not_found", "version"),
    HttpCase("infer by nobody, with a body that is no JSON", "/v2/models/nobody/infer", b"{", 404, "model_not_found",
             "model"),
    HttpCase("load without a key", "/v2/repository/models/card-etth1/load", b"", 403, "permission_denied"),
    HttpCase("unload without a key", "/v2/repository/models/card-etth1/unload", {}, 403, "permission_denied"),
    HttpCase("load of an unknown model without a key", "/v2/repository/models/x/load", b"", 403, "permission_denied"),
)  # fmt: skip
