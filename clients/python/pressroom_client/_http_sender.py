"""HTTP: two senders over httpx, sync and async. Each carries one attempt; both raise this package's errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
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

    def send(self, request: HttpRequest, attempt: Attempt) -> HttpReply:
        outgoing, chunks = _outgoing(self._client, request, attempt), []
        with _translated(outgoing, attempt) as described, closing(self._client.send(outgoing, stream=True)) as response:
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                attempt.check(described)
        return _reply(response, chunks, described, attempt)

    def close(self) -> None:
        self._client.close()


class AsyncHttpSender:
    """Sends over a pool of connections; awaits."""

    def __init__(self, url: str, headers: Mapping[str, str], transport: HttpTransport) -> None:
        self._client = httpx.AsyncClient(**_settings(url, headers, transport))

    async def send(self, request: HttpRequest, attempt: Attempt) -> HttpReply:
        outgoing, chunks = _outgoing(self._client, request, attempt), []
        with _translated(outgoing, attempt) as described:
            async with aclosing(await self._client.send(outgoing, stream=True)) as response:
                async for chunk in response.aiter_bytes():
                    chunks.append(chunk)
                    attempt.check(described)
        return _reply(response, chunks, described, attempt)

    async def close(self) -> None:
        await self._client.aclose()


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
    if limits.read is not None:
        headers[c.REQUEST_TIMEOUT_MS] = str(max(1, round(limits.read * 1000)))
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
    request_id = response.headers.get(c.REQUEST_ID) or attempt.request_id
    log.debug("%s: %d (request id %s)", described, response.status_code, request_id)
    return HttpReply(
        status=response.status_code,
        headers=response.headers,
        content=b"".join(chunks),
        request=described,
        request_id=request_id,
    )
