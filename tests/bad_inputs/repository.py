"""Changing what is served, and keys: cases for a server that has keys of every scope."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import etth1
from tritonclient.grpc import service_pb2

from .case import FORECAST, INFER, GrpcCase, HttpCase, message

SECRETS = {"infer": "infer-key", "metrics": "metrics-key", "admin": "admin-key"}
_LOAD, _UNLOAD = "/v2/repository/models/card-etth1/load", "/v2/repository/models/card-etth1/unload"
_GOOD = json.dumps(etth1.request()).encode()


def key_file() -> str:
    """The server's keys in TOML; a fourth one is used up by its first request."""
    entries = {scope: (secret, "") for scope, secret in SECRETS.items()}
    entries["once"] = ("once-key", "requests_per_day = 1\n")
    lines = ""
    for name, (secret, more) in entries.items():
        digest, scope = hashlib.sha256(secret.encode()).hexdigest(), "infer" if name == "once" else name
        lines += f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\nscopes = ["{scope}"]\n{more}'
    return lines


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def _stranger(name: str, headers: dict[str, str], path: str = FORECAST, method: str = "POST") -> HttpCase:
    return HttpCase(name, path, _GOOD if method == "POST" else b"", 401, "unauthenticated", None, method, headers)


def _forbidden(scope: str, path: str, method: str = "POST") -> HttpCase:
    name = f"{method} {path} with the key of scope {scope}"
    return HttpCase(name, path, b"", 403, "permission_denied", None, method, _bearer(SECRETS[scope]))


def _admin(name: str, path: str, body: Any, status: int, code: str, field: str | None) -> HttpCase:
    return HttpCase(name, path, body, status, code, field, headers=_bearer(SECRETS["admin"]))


def _load(name: str, field: str = "parameters", path: str = _LOAD, **parameters: Any) -> HttpCase:
    return _admin(name, path, {"parameters": parameters}, 422, "invalid_request", field)


CASES = (
    # who is asking
    _stranger("no key", {}),
    _stranger("an unknown key", _bearer("guess")),
    _stranger("an empty key", _bearer("")),
    _stranger("a key for basic authentication", {"Authorization": "Basic aW5mZXI6aW5mZXIta2V5"}),
    _stranger("a key without its kind", {"Authorization": SECRETS["infer"]}),
    _stranger("a key in capitals", _bearer(SECRETS["infer"].upper())),
    _stranger("a key with more behind it", _bearer(SECRETS["infer"] + "x")),
    _stranger("a hash for a key", _bearer(hashlib.sha256(SECRETS["infer"].encode()).hexdigest())),
    _stranger("an unknown key in X-API-Key", {"X-API-Key": "guess"}),
    _stranger("a key in Latin-1", {"X-API-Key": "schl\xfcssel"}),
    _stranger("a very long key", {"X-API-Key": "k" * 8000}),
    _stranger("a bad bearer beside a good X-API-Key", _bearer("guess") | {"X-API-Key": SECRETS["infer"]}),
    _stranger("a key in a cookie", {"Cookie": f"api_key={SECRETS['infer']}"}),
    _stranger("a key in the query", {}, f"/v1/models?api_key={SECRETS['infer']}", "GET"),
    _stranger("tensors without a key", {}, INFER),
    _stranger("metadata without a key", {}, "/v2", "GET"),
    _stranger("metrics without a key", {}, "/metrics", "GET"),
    _stranger("load without a key", {}, _LOAD),
    _stranger("unload without a key", {}, _UNLOAD),
    # what the key is for
    _forbidden("metrics", FORECAST),
    _forbidden("admin", INFER),
    _forbidden("admin", "/v1/models", "GET"),
    _forbidden("infer", "/metrics", "GET"),
    _forbidden("infer", _LOAD),
    _forbidden("metrics", _UNLOAD),
    _forbidden("metrics", "/v2/repository/index"),
    # load and unload
    _admin("load a model nobody pressed", "/v2/repository/models/nobody/load", b"", 409, "load_failed", "model"),
    _admin("load a version nobody pressed", _LOAD, {"parameters": {"version": "99"}}, 409, "load_failed", "model"),
    _admin("unload a model nobody serves", "/v2/repository/models/nobody/unload", b"", 404, "model_not_found", "model"),
    _admin("unload a version nobody serves", _UNLOAD, {"parameters": {"version": "99"}}, 404, "version_not_found",
           "version"),
    _admin("load with a body that is no JSON", _LOAD, b"{", 400, "invalid_json", None),
    _admin("load with a list", _LOAD, b"[]", 422, "invalid_request", None),
    _admin("load with a list of parameters", _LOAD, {"parameters": []}, 422, "invalid_request", "parameters"),
    _load("load with an unknown parameter", config="{}"),
    _load("load a file over the wire", **{"file:1/model.onnx": "AAAA"}),
    _load("unload with a canary", path=_UNLOAD, canary_weight=0.5),
    _load("a version that is a number", "parameters.version", version=1),
    _load("a version that is a list", "parameters.version", version=["1"]),
    _load("a canary beyond one", "parameters.canary_weight", canary_weight=1.5),
    _load("a negative canary", "parameters.canary_weight", canary_weight=-0.1),
    _load("a canary in text", "parameters.canary_weight", canary_weight="0.1"),
    _load("a canary that is true", "parameters.canary_weight", canary_weight=True),
    _load("a canary that is NaN", "parameters.canary_weight", canary_weight=float("nan")),
    _load("a shadow beyond one", "parameters.shadow_fraction", shadow_fraction=2),
    _load("a shadow that is null in a list", "parameters.shadow_fraction", shadow_fraction=[None]),
    _admin("load with white space", _LOAD, b" " * 10, 400, "invalid_json", None),
)  # fmt: skip

_ADMIN = (("authorization", f"Bearer {SECRETS['admin']}"),)
_RAW = ("history", "FP32", [1, 96, 7], etth1.history().tobytes())


def _change(
    name: str, status: str, code: str, field: str | None, call: str = "Load", model: str = etth1.CARD, **sent: Any
) -> GrpcCase:
    request = getattr(service_pb2, f"RepositoryModel{call}Request")(model_name=model)
    for key, value in sent.items():
        kind = {str: "string_param", int: "int64_param", bool: "bool_param", type(None): None}[type(value)]
        parameter = request.parameters[key]
        if kind is not None:
            setattr(parameter, kind, value)
    return GrpcCase(name, f"RepositoryModel{call}", request.SerializeToString(), status, code, field, metadata=_ADMIN)


def _barred(name: str, call: str, raw: bytes, status: str, code: str, secret: str | None = None) -> GrpcCase:
    metadata = () if secret is None else (("x-api-key", secret),)
    return GrpcCase(name, call, raw, status, code, metadata=metadata)


_INFER = message(_RAW).SerializeToString()
GRPC_CASES = (
    _barred("infer without a key", "ModelInfer", _INFER, "UNAUTHENTICATED", "unauthenticated"),
    _barred("infer with an unknown key", "ModelInfer", _INFER, "UNAUTHENTICATED", "unauthenticated", "guess"),
    _barred("infer with the admin's key", "ModelInfer", _INFER, "PERMISSION_DENIED", "permission_denied", "admin-key"),
    _barred("the stream without a key", "ModelStreamInfer", _INFER, "OK", "unauthenticated"),
    _barred("metadata without a key", "ServerMetadata", b"", "UNAUTHENTICATED", "unauthenticated"),
    _barred("the index without a key", "RepositoryIndex", b"", "UNAUTHENTICATED", "unauthenticated"),
    _barred("load without a key", "RepositoryModelLoad", b"", "UNAUTHENTICATED", "unauthenticated"),
    _barred("load with a caller's key", "RepositoryModelLoad", b"", "PERMISSION_DENIED", "permission_denied",
            SECRETS["infer"]),
    _barred("unload with a caller's key", "RepositoryModelUnload", b"", "PERMISSION_DENIED", "permission_denied",
            SECRETS["infer"]),
    _change("load a model nobody pressed", "FAILED_PRECONDITION", "load_failed", "model", model="nobody"),
    _change("load a version nobody pressed", "FAILED_PRECONDITION", "load_failed", "model", version="99"),
    _change("unload a model nobody serves", "NOT_FOUND", "model_not_found", "model", "Unload", model="nobody"),
    _change("unload a version nobody serves", "NOT_FOUND", "version_not_found", "version", "Unload", version="9"),
    _change("load with Triton's config", "INVALID_ARGUMENT", "invalid_request", "parameters", config="{}"),
    _change("unload by force", "INVALID_ARGUMENT", "invalid_request", "parameters", "Unload", force=True),
    _change("a version that is a number", "INVALID_ARGUMENT", "invalid_request", "parameters.version", version=1),
    _change("a canary that is no number", "INVALID_ARGUMENT", "invalid_request", "parameters.canary_weight",
            canary_weight="some"),
    _change("a canary beyond one", "INVALID_ARGUMENT", "invalid_request", "parameters.canary_weight",
            canary_weight="1.01"),
    _change("a canary that is NaN", "INVALID_ARGUMENT", "invalid_request", "parameters.canary_weight",
            canary_weight="nan"),
    _change("a parameter without a value", "INVALID_ARGUMENT", "invalid_request", "parameters", unknown=None),
)  # fmt: skip

# Two requests with the key that has one: the first is answered, the second is told when to come back.
USED_UP = HttpCase("a key used up", FORECAST, _GOOD, 429, "rate_limited", None, headers={"X-API-Key": "once-key"})
