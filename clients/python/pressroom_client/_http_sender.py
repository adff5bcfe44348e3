"""HTTP: two senders over httpx, sync and async. Each carries one attempt; both raise this package's errors."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager
from typing import Any

import httpx

from . import _constants as c
from ._config import HttpTransport
from ._errors import APIConnectionError, APITimeoutError
from ._exchange import Attempt
from ._http_wire import HttpReply, HttpRequest

log = logging.getLogger("pressroom_client")

_PHASES: dict[type[Exception], str] = {
    httpx.ConnectTimeout: "connect",
    httpx.ReadTimeout: "read",
    httpx.WriteTimeout: "write",
    httpx.PoolTimeout: "pool",
}


class HttpSender:
    """Sends over a pool of connections; blocks; safe to share between threads."""

    def __init__(self, url: str, headers: Mapping[str, str], transport: HttpTransport) -> None:
        self._client = httpx.Client(**_settings(url, headers, transport))

    def send(self, request: HttpRequest, attempt: Attempt) -> HttpReply | HttpLines:
        """One attempt; a streamed answer is returned once it has begun."""
        if request.streamed:
            return self._open(request, attempt)
        outgoing, chunks = _outgoing(self._client, request, attempt), []
        with _translated(outgoing, attempt) as described, closing(self._client.send(outgoing, stream=True)) as response:
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                attempt.check(described)
        return _reply(response, chunks, described, attempt)

    def _open(self, request: HttpRequest, attempt: Attempt) -> HttpReply | HttpLines:
        outgoing = _outgoing(self._client, request, attempt)
        with _translated(outgoing, attempt) as described:
            response = self._client.send(outgoing, stream=True)
            if _is_stream(response):
                return HttpLines(response, outgoing, described, attempt)
            with closing(response):
                return _reply(response, [response.read()], described, attempt)

    def close(self) -> None:
        self._client.close()


class AsyncHttpSender:
    """Sends over a pool of connections; awaits."""

    def __init__(self, url: str, headers: Mapping[str, str], transport: HttpTransport) -> None:
        self._client = httpx.AsyncClient(**_settings(url, headers, transport))

    async def send(self, request: HttpRequest, attempt: Attempt) -> HttpReply | AsyncHttpLines:
        """One attempt; a streamed answer is returned once it has begun."""
        if request.streamed:
            return await self._open(request, attempt)
        outgoing, chunks = _outgoing(self._client, request, attempt), []
        with _translated(outgoing, attempt) as described:
            async with aclosing(await self._client.send(outgoing, stream=True)) as response:
                async for chunk in response.aiter_bytes():
                    chunks.append(chunk)
                    attempt.check(described)
        return _reply(response, chunks, described, attempt)

    async def _open(self, request: HttpRequest, attempt: Attempt) -> HttpReply | AsyncHttpLines:
        outgoing = _outgoing(self._client, request, attempt)
        with _translated(outgoing, attempt) as described:
            response = await self._client.send(outgoing, stream=True)
            if _is_stream(response):
                return AsyncHttpLines(response, outgoing, described, attempt)
            async with aclosing(response):
                return _reply(response, [await response.aread()], described, attempt)

    async def close(self) -> None:
        await self._client.aclose()


class HttpLines:
    """Lines of an answer that is still coming."""

    def __init__(self, response: httpx.Response, outgoing: httpx.Request, described: str, attempt: Attempt) -> None:
        self._response = response
        self._outgoing = outgoing
        self._attempt = attempt
        self.request = described
        self.request_id = _request_id(response, attempt)

    def __iter__(self) -> Iterator[str]:
        splitter = _LineSplitter()
        with _translated(self._outgoing, self._attempt) as described:
            for chunk in self._response.iter_bytes():
                yield from splitter.feed(chunk)
                self._attempt.check(described)

    def close(self) -> None:
        self._response.close()


class AsyncHttpLines:
    """Lines of an answer that is still coming."""

    def __init__(self, response: httpx.Response, outgoing: httpx.Request, described: str, attempt: Attempt) -> None:
        self._response = response
        self._outgoing = outgoing
        self._attempt = attempt
        self.request = described
        self.request_id = _request_id(response, attempt)

    async def __aiter__(self) -> AsyncIterator[str]:
        splitter = _LineSplitter()
        with _translated(self._outgoing, self._attempt) as described:
            async for chunk in self._response.aiter_bytes():
                for line in splitter.feed(chunk):
                    yield line
                self._attempt.check(described)

    async def aclose(self) -> None:
        await self._response.aclose()


class _LineSplitter:
    """Lines end at line feeds only: JSON may hold every other character that Python takes for a line's end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.decode("utf-8", "replace").rstrip("\r") for line in lines]


def _is_stream(response: httpx.Response) -> bool:
    kind = response.headers.get("content-type", "")
    return response.status_code == 200 and kind.startswith("text/event-stream")


def _settings(url: str, headers: Mapping[str, str], transport: HttpTransport) -> dict[str, Any]:
    return {
        "base_url": url,
        "headers": headers,
        "verify": transport.verify,
        "proxy": transport.proxy,
        "trust_env": transport.trust_env,
        "limits": httpx.Limits(max_connections=transport.max_connections),
    }


def _outgoing(client: httpx.Client | httpx.AsyncClient, request: HttpRequest, attempt: Attempt) -> httpx.Request:
    limits = attempt.timeout
    headers = {**request.headers, **attempt.headers()}
    patience = attempt.left() if request.streamed else limits.read
    if patience is not None:
        headers[c.REQUEST_TIMEOUT_MS] = str(max(1, round(patience * 1000)))
    timeout = httpx.Timeout(connect=limits.connect, read=limits.read, write=limits.write, pool=limits.pool)
    content = request.content if request.method == "POST" else None
    return client.build_request(request.method, request.path, headers=headers, content=content, timeout=timeout)


@contextmanager
def _translated(request: httpx.Request, attempt: Attempt) -> Iterator[str]:
    """Give the request a name, and httpx's errors ours."""
    described = f"{request.method} {request.url}"
    log.debug("%s (request id %s, attempt %d)", described, attempt.request_id, attempt.number + 1)
    known: dict[str, Any] = {"request": described, "request_id": attempt.request_id}
    try:
        yield described
    except httpx.TimeoutException as error:
        raise _timed_out(_PHASES[type(error)], attempt, known) from error
    except httpx.RequestError as error:
        hint = "is the server running, and is this its address?" if isinstance(error, httpx.ConnectError) else None
        raise APIConnectionError(f"{type(error).__name__}: {error}", hint=hint, **known) from error


def _timed_out(phase: str, attempt: Attempt, known: Mapping[str, Any]) -> APITimeoutError:
    seconds = getattr(attempt.timeout, phase)
    hint = f"raise timeout.{phase}, or timeout.total if that was shorter"
    error = APITimeoutError(f"the {phase} timeout of {seconds:.3g} s passed", hint=hint, **known)
    error.phase = phase
    return error


def _reply(response: httpx.Response, chunks: list[bytes], described: str, attempt: Attempt) -> HttpReply:
    request_id = _request_id(response, attempt)
    log.debug("%s: %d (request id %s)", described, response.status_code, request_id)
    return HttpReply(
        status=response.status_code,
        headers=response.headers,
        content=b"".join(chunks),
        request=described,
        request_id=request_id,
    )


def _request_id(response: httpx.Response, attempt: Attempt) -> str:
    return response.headers.get(c.REQUEST_ID) or attempt.request_id
