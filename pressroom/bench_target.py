"""The server and model under load: where they are, what the model takes, and an example request of its own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from export.errors import ExportError, OptionError
from pressroom.bench_grpc import GrpcLine, open_channel
from pressroom.bench_http import HttpLine, request
from pressroom.bench_load import Line, MakeLine

ROUTES = {  # native route of each family's example; {task}: the request says
    "forecast": "/v1/forecast",
    "llm": "/v1/completions",
    "detect": "/v1/{task}",
    "text-detect": "/v1/text/detect",
    "watermark": "/v1/watermark/decode",
    "ehr": "/v1/ehr/predict",
    "onnx": "/v1/tensors",
}
ASKING_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """An address and how to be let in.

    key          API key, "" for none
    authorities  file of PEM certificates that vouch for the server; None: the system's
    grpc         host:port of its gRPC
    """

    host: str
    port: int
    tls: bool
    grpc: str
    key: str = ""
    authorities: Path | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{_bracketed(self.host)}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """A prepared HTTP/1.1 request."""
        return request(f"{_bracketed(self.host)}:{self.port}", path, body, {**self.headers, **headers})

    def http_lines(self) -> MakeLine:
        """A maker of connections."""
        context = self.context()
        return lambda: HttpLine(self.host, self.port, context)

    def grpc_lines(self, channels: int) -> tuple[MakeLine, list[Any]]:
        """A maker of callers, and the channels they share. To be called, and the channels closed, in the event loop."""
        trusted = self.authorities.read_bytes() if self.authorities else None
        opened = [open_channel(self.grpc, trusted, tls=self.tls) for _ in range(channels)]
        metadata = tuple((name.lower(), value) for name, value in self.headers.items())
        made = 0

        def make() -> Line:
            nonlocal made
            made += 1
            return GrpcLine(opened[made % channels], metadata)

        return make, opened

    def context(self) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.authorities) if self.tls else None

    def get(self, path: str) -> Any:
        """A JSON document, or None where the server has none there. Raises ExportError if it cannot be asked."""
        try:
            verify = self.context() or False
            found = httpx.get(self.url + path, headers=self.headers, timeout=ASKING_SECONDS, verify=verify)
        except httpx.HTTPError as error:
            raise OptionError(
                f"{self.url} does not answer: {error}",
                "is a server running there? `pressroom serve gateway` starts one",
            ) from None
        if found.status_code in (401, 403):
            raise ExportError(
                f"{self.url}{path} answers {found.status_code}", "give a key: PRESSROOM_API_KEY or --api-key"
            )
        try:
            return found.json() if found.status_code == 200 else None
        except ValueError:
            return None


def read_server(url: str, grpc: str | None = None, key: str = "", authorities: Path | None = None) -> Server:
    """A server from its address. Raises OptionError for one that makes no sense."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise OptionError(f"{url!r} is not http://HOST:PORT or https://HOST:PORT", "leave paths away")
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    beside = f"{_bracketed(parts.hostname)}:{port + 1}"
    return Server(parts.hostname, port, tls, (grpc or beside).rpartition("//")[2], key, authorities)


@dataclass(frozen=True)
class Model:
    """What the server says of a model.

    family   "" on servers that are not ours
    inputs   the protocol's tensors: name, datatype, shape (-1: any); empty where it speaks another one
    optional inputs that may be left out
    example  a native request with its route; None where there is none
    """

    name: str
    version: str
    family: str
    inputs: tuple[dict[str, Any], ...]
    optional: frozenset[str]
    example: tuple[str, dict[str, Any]] | None

    @property
    def generates(self) -> bool:
        """A language model: answered token by token."""
        return self.family == "llm"


def ask_model(server: Server, named: str) -> Model:
    """Look a model up on our routes and on the protocol's. Raises OptionError if the server has none of that name."""
    name, _, version = named.partition(":")
    ours = server.get(f"/v1/models/{named}")
    known = f"/v2/models/{name}" + (f"/versions/{version}" if version else "")
    protocol = server.get(known)
    if not isinstance(ours, dict) and not isinstance(protocol, dict):
        listed = _listed(server)
        if named not in listed:  # servers of OpenAI's routes alone may have a list and no entries
            hint = f"it serves {', '.join(listed)}" if listed else "check the name"
            raise OptionError(f"{server.url} serves no model {named!r}", hint)
    entry = ours if isinstance(ours, dict) else {}
    family = str(entry.get("family", ""))
    signed = entry.get("signature", {}).get("inputs", [])
    inputs = tuple(protocol["inputs"]) if isinstance(protocol, dict) else ()
    return Model(
        name=name,
        version=version,
        family=family,
        inputs=inputs,
        optional=frozenset(spec["name"] for spec in signed if spec.get("optional")),
        example=_example(family, entry.get("example", {}).get("request"), named),
    )


def _example(family: str, request: Any, named: str) -> tuple[str, dict[str, Any]] | None:
    if family not in ROUTES or not isinstance(request, dict):
        return None
    return ROUTES[family].format(**request), {**request, "model": named}


def _listed(server: Server) -> list[str]:
    listed = server.get("/v1/models")
    return [str(one.get("id", "")) for one in listed.get("data", [])] if isinstance(listed, dict) else []


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
