"""One HTTP request and its response, on bare ASGI: headers, a bounded body, disconnects, JSON.

A body larger than the limit is never held: what still arrives is read and dropped (for a bounded time and amount), so
that a caller who is still sending can read the 413.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NoReturn, TypeVar

import orjson

from services.core.call import Call, read_priority, request_id_from
from services.core.errors import ApiError
from services.core.http.content import CODINGS, inflate
from services.core.http.turn import Headers, Turn

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Envelope = Callable[[ApiError, str], dict[str, Any]]  # an error and the request's id as a document

JSON = b"application/json"
EVENTS = b"text/event-stream; charset=utf-8"
DRAIN_BYTES = 256 * 2**20  # of a refused body, read and dropped
DRAIN_SECONDS = 10.0
LATE_SECONDS = 2.0  # the same for a body whose deadline has passed


@dataclass(slots=True)  # made for every request, and freezing costs more than making: treated as frozen
class Response:
    """What a handler returns."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: Headers = field(default_factory=list)


def json_response(document: Any, status: int = 200, headers: Headers | None = None) -> Response:
    return Response(orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), status, JSON, headers or [])


def event(document: Any) -> bytes:
    """A document as one server-sent event."""
    return b"data: " + orjson.dumps(document) + b"\n\n"


class DisconnectedError(Exception):
    """The caller went away before its answer was ready."""


class Exchange:
    """The request being handled. `call` carries its identity, deadline and timings."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, route: str, timeout_ms: int) -> None:
        self._receive = receive
        self._send = send
        self._turn = Turn.of(receive)
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.call = Call(route, "http", request_id_from(self._header(b"x-request-id")))
        self.call.deadline = self.call.started + timeout_ms / 1000
        self.local_address: str = (scope.get("server") or ("",))[0]
        self.extra_headers: Headers = []
        self._unread = False  # a body was awaited and has not ended
        self.streamed = False  # a response has begun that is made while it is sent
        self.key_id: str | None = None

    def secret(self) -> str | None:
        """The API key the caller sent, as bearer token or in X-API-Key."""
        return secret_of(self.headers)

    def read_wishes(self) -> None:
        """Take the caller's own version, priority and deadline. Raises ApiError if a header is unusable."""
        self.call.pinned_version = self._header(b"x-model-version")
        self.call.traceparent = self._header(b"traceparent")
        wish = self._header(b"x-priority")
        if wish is not None:
            self.call.interactive = read_priority(wish, "X-Priority")
        raw = self.headers.get(b"x-request-timeout-ms")
        if raw is None:
            return
        if not raw.isdigit() or len(raw) > 9 or int(raw) == 0:
            raise ApiError(
                "invalid_request",
                "X-Request-Timeout-Ms must be a positive number of milliseconds",
                field="X-Request-Timeout-Ms",
            )
        self.call.deadline = self.call.started + int(raw) / 1000
        self.call.named_deadline = True

    def _header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def read_body(self, limit: int) -> bytes:
        """The whole body, inflated if it came compressed; at most `limit` bytes. Raises ApiError, DisconnectedError."""
        encoding = self.headers.get(b"content-encoding", b"identity").lower()
        if encoding != b"identity" and encoding not in CODINGS:
            raise ApiError(
                "unsupported_media_type",
                f"content encoding {encoding.decode('latin-1')[:40]!r} is not read here",
                field="Content-Encoding",
                hint="send the body as it is, or as gzip or deflate",
            )
        declared = self.headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > limit:
            self._unread = True
            await self._refuse_body(limit, int(declared))
        body = await self._collect(limit)
        self.call.restart()  # the caller's upload is not our preprocessing
        return body if encoding == b"identity" else inflate(body, encoding, limit)

    async def _collect(self, limit: int) -> bytes:
        """The body as it comes, within the request's deadline: who sends slower must not keep a place for ever."""
        body = None if self._turn is None else self._turn.take_body()
        if body is not None:
            if len(body) > limit:
                await self._refuse_body(limit, len(body))
            return body
        assert self.call.deadline is not None
        left = self.call.deadline - perf_counter()
        self._unread = True
        try:
            async with asyncio.timeout(left):
                parts, size = await self._receive_up_to(limit)
        except TimeoutError:
            await self._drop_rest(LATE_SECONDS)
            raise ApiError("deadline_exceeded", "the deadline passed before the whole body had arrived") from None
        if size > limit:
            parts.clear()
            await self._refuse_body(limit, size)
        return b"".join(parts)

    async def _receive_up_to(self, limit: int) -> tuple[list[bytes], int]:
        """Parts of the body and their size, until it ends or exceeds the limit."""
        parts, size = [], 0
        while True:
            part = await self._receive_part()
            parts.append(part)
            size += len(part)
            if size > limit or not self._unread:
                return parts, size

    async def _receive_part(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        self._unread = message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def _refuse_body(self, limit: int, size: int) -> NoReturn:
        if b"expect" not in self.headers:  # a caller that asked first has sent nothing yet
            await self._drop_rest(DRAIN_SECONDS)
        raise ApiError(
            "payload_too_large",
            f"the body has at least {size} bytes, the limit is {limit}",
            hint="send fewer series per request, or use the binary tensor format",
        )

    async def _drop_rest(self, seconds: float) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(seconds):
                while self._unread and dropped < DRAIN_BYTES:
                    dropped += len(await self._receive_part())
        except TimeoutError:
            return

    async def until_disconnect(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, cancelling it if the caller goes away. Raises DisconnectedError then."""
        task = asyncio.current_task()
        assert task is not None
        if self._turn is not None:
            return await _while_there(self._turn, task, work)
        watch = asyncio.get_running_loop().create_task(self._watch(task))
        try:
            return await work
        except asyncio.CancelledError:
            if watch.done() and not watch.cancelled() and task.uncancel() == 0:
                raise DisconnectedError from None
            raise
        finally:
            watch.cancel()

    async def _watch(self, task: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    async def respond(self, response: Response) -> None:
        """Send a response; the request id is always among its headers."""
        headers = headers_of(response, self.call.request_id, self.extra_headers)
        if self._turn is not None:
            await self._turn.answer(response.status, headers, response.body)
            return
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": response.body})

    async def stream(self, parts: AsyncGenerator[bytes], envelope: Envelope) -> None:
        """Send server-sent events while they are made, and close `parts` however that ends.

        Raises what `parts` raised, after its envelope was sent as the last event, and DisconnectedError.
        """
        self.streamed = True
        try:
            async with aclosing(parts):
                await self.until_disconnect(self._stream(parts))
        except DisconnectedError:
            raise
        except Exception as fault:
            last = event(envelope(ApiError.of(fault), self.call.request_id))
            await self._send({"type": "http.response.body", "body": last})
            raise
        await self._send({"type": "http.response.body", "body": b""})

    async def _stream(self, parts: AsyncGenerator[bytes]) -> None:
        headers = [
            (b"content-type", EVENTS),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),  # a proxy that gathers events would undo the stream
            (b"x-request-id", self.call.request_id.encode()),
            *self.extra_headers,
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        async for part in parts:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})

    def refusal(self, error: ApiError, envelope: Envelope = ApiError.envelope) -> Response:
        """The envelope of an error as a response."""
        response = refusal(error, self.call.request_id, envelope)
        if self._unread or error.code == "payload_too_large":
            response.headers.append((b"connection", b"close"))  # bytes nobody read may follow on this connection
        return response


def secret_of(headers: Mapping[bytes, bytes]) -> str | None:
    """The API key among a request's headers, as bearer token or in X-API-Key."""
    kind, _, token = headers.get(b"authorization", b"").partition(b" ")
    sent = token.strip() if kind.lower() == b"bearer" else headers.get(b"x-api-key")
    return None if sent is None else sent.decode("latin-1")


def headers_of(response: Response, request_id: str, extra: Headers) -> Headers:
    """All headers of a response; the request id is always among them.

    A 304 names no length: it would have to be the whole answer's (RFC 9110, 8.6), and its own body is always empty.
    """
    length: Headers = [] if response.status == 304 else [(b"content-length", str(len(response.body)).encode())]
    return [
        (b"content-type", response.content_type),
        *length,
        (b"x-request-id", request_id.encode()),
        *extra,
        *response.headers,
    ]


def refusal(error: ApiError, request_id: str, envelope: Envelope = ApiError.envelope) -> Response:
    """The envelope of an error as a response."""
    headers: Headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
    if error.retry_after_ms is not None:
        headers.append((b"retry-after", str(max(1, -(-error.retry_after_ms // 1000))).encode()))
    if error.code == "unauthenticated":
        headers.append((b"www-authenticate", b"Bearer"))
    return json_response(envelope(error, request_id), error.status.http, headers)


async def _while_there(turn: Turn, task: asyncio.Task[Any], work: Coroutine[Any, Any, T]) -> T:
    """Await `work` in `task`, unless the caller goes away."""
    if turn.disconnected:
        work.close()
        raise DisconnectedError
    turn.watch(task.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if turn.disconnected and task.uncancel() == 0:
            raise DisconnectedError from None
        raise
    finally:
        turn.leave = None
