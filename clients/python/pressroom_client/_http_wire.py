"""HTTP: the client's methods as requests, and how to read their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from . import _json
from ._config import Clock
from ._error_mapping import http_error
from ._errors import APIConnectionError, PressroomError, Unavailable, UnexpectedAnswer
from ._exchange import Exchange, InferCall, Target, TaskCall
from ._forecast import ForecastCall
from ._image_calls import ImageCall
from ._oip_http import infer_body, infer_result
from ._text import TextCall
from ._text_types import TextResult
from ._types import ForecastResult, InferResult, ModelInfo, ModelMetadata, ServerInfo, TensorSpec

log = logging.getLogger("pressroom_client")
T = TypeVar("T")

_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """What a sender needs to send. streamed: the answer is taken as lines while it comes."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    streamed: bool = False


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """What came back, and for which request."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    request: str
    request_id: str


class HttpWire:
    """The client's methods as HTTP requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def forecast(self, call: ForecastCall) -> Exchange[ForecastResult]:
        request = HttpRequest(method="POST", path="/v1/forecast", headers=_JSON, content=call.body)
        return self._exchange(request, lambda reply: call.read(reply.content, reply.request_id))

    def image(self, call: ImageCall[T]) -> Exchange[T]:
        request = HttpRequest(method="POST", path=call.path, headers=_JSON, content=call.body)
        return self._exchange(request, lambda reply: call.read(reply.content, reply.request_id))

    def task(self, call: TaskCall[T]) -> Exchange[T]:
        request = HttpRequest(method="POST", path=call.path, headers=_JSON, content=call.body)
        return self._exchange(request, lambda reply: call.read(reply.content, reply.request_id))

    def text(self, call: TextCall) -> Exchange[TextResult]:
        request = HttpRequest(method="POST", path=call.path, headers=_JSON, content=call.body)
        return self._exchange(request, lambda reply: call.read(reply.content, reply.request_id))

    def stream(self, call: TextCall, follow: Callable[[Any], T]) -> Exchange[T]:
        request = HttpRequest(method="POST", path=call.path, headers=_JSON, content=call.body, streamed=True)

        def read(answer: Any) -> T:
            if isinstance(answer, HttpReply):
                self._check(answer)
                message = f"expected a stream, got {answer.headers.get('content-type')}"
                raise UnexpectedAnswer(message, request=answer.request, request_id=answer.request_id)
            return follow(answer)

        return Exchange(request=request, read=read)

    def infer(self, call: InferCall) -> Exchange[InferResult]:
        headers, body = infer_body(call)
        request = HttpRequest(method="POST", path=_model(call.target, "/infer"), headers=headers, content=body)
        return self._exchange(request, lambda reply: infer_result(reply.headers, reply.content, reply.request_id))

    def models(self) -> Exchange[list[ModelInfo]]:
        return self._get("/v1/models", lambda answer: [ModelInfo.parse(entry) for entry in answer["data"]])

    def model(self, target: Target) -> Exchange[ModelInfo]:
        version = f":{quote(target.version, safe='')}" if target.version else ""
        return self._get(f"/v1/models/{quote(target.name, safe='')}{version}", ModelInfo.parse)

    def metadata(self, target: Target) -> Exchange[ModelMetadata]:
        return self._get(_model(target), _metadata)

    def server(self) -> Exchange[ServerInfo]:
        return self._get("/v2", _server)

    def live(self) -> Exchange[bool]:
        return self._probe("/v2/health/live")

    def ready(self) -> Exchange[bool]:
        return self._probe("/v2/health/ready")

    def model_ready(self, target: Target) -> Exchange[bool]:
        return self._probe(_model(target, "/ready"))

    def _get(self, path: str, parse: Callable[[Any], T]) -> Exchange[T]:
        def read(reply: HttpReply) -> T:
            try:
                return parse(_json.decode(reply.content))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                message = f"the answer lacks what {path} promises: {type(error).__name__} at {error}"
                raise UnexpectedAnswer(message, request=reply.request, request_id=reply.request_id) from error

        return self._exchange(HttpRequest(method="GET", path=path), read)

    def _exchange(self, request: HttpRequest, read: Callable[[HttpReply], T]) -> Exchange[T]:
        def checked(reply: HttpReply) -> T:
            self._check(reply)
            return read(reply)

        return Exchange(request=request, read=checked)

    def _probe(self, path: str) -> Exchange[bool]:
        def read(reply: HttpReply) -> bool:
            self._check(reply)
            return True

        return Exchange(request=HttpRequest(method="GET", path=path), read=read, otherwise=not_now, probe=True)

    def _check(self, reply: HttpReply) -> None:
        if 200 <= reply.status < 300:
            return
        known: dict[str, Any] = {"request": reply.request, "request_id": reply.request_id}
        if reply.status < 400:
            hint = f"give the client the address it points to: {reply.headers.get('location')}"
            raise UnexpectedAnswer(f"the server redirects ({reply.status})", hint=hint, **known)
        raise http_error(reply.status, reply.headers, reply.content, wall=self._clock.wall, **known)


def not_now(error: PressroomError) -> bool:
    """A probe's answer when the server says no or cannot be reached; any other error is one."""
    if isinstance(error, (Unavailable, APIConnectionError)):
        log.debug("probe: %s", error.message)
        return False
    raise error


def _model(target: Target, tail: str = "") -> str:
    version = f"/versions/{quote(target.version, safe='')}" if target.version else ""
    return f"/v2/models/{quote(target.name, safe='')}{version}{tail}"


def _metadata(answer: Mapping[str, Any]) -> ModelMetadata:
    def specs(tensors: list[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(t["name"], t["datatype"], tuple(t["shape"])) for t in tensors)

    return ModelMetadata(
        name=answer["name"],
        versions=tuple(answer.get("versions") or ()),
        platform=answer.get("platform") or "",
        inputs=specs(answer["inputs"]),
        outputs=specs(answer["outputs"]),
    )


def _server(answer: Mapping[str, Any]) -> ServerInfo:
    extensions = tuple(answer.get("extensions") or ())
    return ServerInfo(name=answer["name"], version=answer["version"], extensions=extensions)
