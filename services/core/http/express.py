"""Binary infer requests that look like the last one of their connection, answered without parser, task and ASGI.

A client sends the same head with every request: only the tensors differ. Once such a request has gone the ordinary way
its head is kept, and when a read from the socket begins with the very same bytes and is exactly as long, it is a
request of the same kind. Everything else, and whatever is not entirely familiar, goes the ordinary way again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from services.core.call import Call, request_id_from
from services.core.errors import ApiError
from services.core.http.exchange import Response, headers_of, refusal, secret_of
from services.core.http.routes import Params, Routes
from services.core.http.turn import CLOSE, Headers, written_headers, written_start
from services.core.metrics import InFlight
from services.core.oip.codec import HEADER_LENGTH, encode_response, layout_in
from services.core.oip.direct import Caller, Direct, Form
from services.core.oip.inference import Parameters
from services.core.oip.layout import InferRequest
from services.core.repository import INFER_ROUTE
from services.core.serving import Serving
from services.core.tensors import Tensors

_END = b"\r\n\r\n"
_ORDINARY = frozenset(
    (b"expect", b"transfer-encoding", b"content-encoding", b"upgrade", b"traceparent", b"x-request-id",
     b"x-request-timeout-ms", b"x-priority", b"x-model-version")
)  # fmt: skip  # headers that differ from request to request, or ask for something


class Wire(Protocol):
    """What a ride needs of its connection."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    server_state: Any  # uvicorn's

    def on_response_complete(self) -> None: ...


@dataclass
class Head:
    """The beginning of a request that may come again.

    start   its bytes: to the end of the headers; with the JSON header once `form` is known
    size    of the whole request
    length  of the JSON header at the beginning of the body
    name, version  of the model, as the path has them
    """

    start: bytes
    size: int
    length: int
    name: str
    version: str | None
    caller: Caller
    form: Form | None = None

    def matches(self, data: bytes) -> bool:
        """Whether this is the same beginning, and one whole request."""
        return len(data) == self.size and data.startswith(self.start)

    def place(self, data: bytes) -> Form | None:
        """The form of a request that matches, from the layout that was noted when the first of its kind was read."""
        at = len(self.start)
        layout = layout_in(data[at : at + self.length], len(data) - at)
        if layout is not None:
            self.start = data[: at + self.length]
            self.form = Form(self.name, self.version, layout.moved(at))
        return self.form


class Express:
    """Learns heads, and takes requests that have one. One for all connections of a worker."""

    def __init__(self, routes: Routes, serving: Serving, in_flight: InFlight) -> None:
        self._routes = routes
        self._serving = serving
        self._in_flight = in_flight
        self._timeout = serving.settings.request_timeout_ms / 1000

    def learn(self, data: bytes, scope: Mapping[str, Any]) -> Head | None:
        """The head of a request that came in one read, if requests with this head may be taken from now on."""
        params = self._model_of(scope)
        if params is None:
            return None
        headers, at = dict(scope["headers"]), data.find(_END) + len(_END)
        length, size = headers.get(HEADER_LENGTH, b""), headers.get(b"content-length", b"")
        kept = headers.get(b"connection", b"keep-alive").lower() == b"keep-alive" and scope["http_version"] == "1.1"
        if not kept or not length.isdigit() or len(length) > len(size) or size != str(len(data) - at).encode():
            return None
        if len(headers) != len(scope["headers"]) or _ORDINARY & headers.keys():
            return None
        caller = Caller(secret_of(headers), (scope.get("server") or ("",))[0])
        return Head(data[:at], len(data), int(length), params["name"], params.get("version"), caller)

    def take(self, head: Head, data: bytes, wire: Wire) -> Ride | None:
        """A request with a known head, ready to begin; None: have it go the ordinary way."""
        form = head.form or head.place(data)
        if form is None:
            return None
        call = Call(INFER_ROUTE, "http", request_id_from(None))
        call.deadline = call.started + self._timeout
        ride = Ride(self._serving, self._in_flight, form.layout.read(data), call, wire)
        return ride if ride.admit(form, head.caller) else None

    def _model_of(self, scope: Mapping[str, Any]) -> Params | None:
        """What the path of an infer request names; None for any other request."""
        if scope["method"] != "POST" or not scope["path"].endswith("/infer") or scope["query_string"]:
            return None
        found = self._routes.find(scope["path"])
        if found is None or found[0]["POST"].label != INFER_ROUTE:
            return None
        return found[1]


class Ride(Direct):
    """One such request. Stands where uvicorn's own state of a request would (`protocol.cycle`)."""

    __slots__ = ("_sent", "_wire", "disconnected", "keep_alive")

    message_event: ClassVar[asyncio.Event] = asyncio.Event()  # uvicorn sets it; nobody waits

    def __init__(self, serving: Serving, in_flight: InFlight, request: InferRequest, call: Call, wire: Wire) -> None:
        super().__init__(serving, in_flight, request, call)
        self._wire = wire
        self._sent = False
        self.disconnected = False
        self.keep_alive = True

    @property
    def response_complete(self) -> bool:
        return self._sent

    def _answer(self, outputs: Tensors, parameters: Parameters) -> None:
        model, request = self._model, self._request
        self._send(encode_response(model.name, model.version, outputs, parameters, request))

    def _refuse(self, error: ApiError) -> None:
        self._send(refusal(error, self.call.request_id))

    def _send(self, response: Response) -> None:
        wire = self._wire
        extra: Headers = [(name.encode(), value.encode()) for name, value in self._admission.headers.items()]
        if not self.keep_alive:
            extra.append(CLOSE)
        head = written_start(response.status, wire.server_state.default_headers)
        head += written_headers(headers_of(response, self.call.request_id, extra))
        # When all answers of the batch are made: sent one right after another they wake who waits for them only once.
        wire.loop.call_soon(self._write, head + response.body)

    def _write(self, data: bytes) -> None:
        wire, self._sent = self._wire, True
        if not wire.transport.is_closing():
            wire.transport.write(data)
        if not self.keep_alive:
            wire.transport.close()
        wire.on_response_complete()
