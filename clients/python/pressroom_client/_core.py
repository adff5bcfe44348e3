"""What Client and AsyncClient have in common: everything but sending and sleeping.

The address picks the wire and the senders; a method call becomes an exchange and a course of attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from . import _constants as c
from ._config import Clock, GrpcTransport, HttpTransport, Retry, Timeout
from ._errors import UsageError
from ._exchange import AsyncSender, Exchange, InferCall, Inputs, Sender, Target, Wire
from ._forecast import ForecastCall, forecast_call
from ._history import Histories
from ._retry import Course
from ._text import TextCall, text_call
from ._version import __version__

T = TypeVar("T")
Version = str | int | None


class Core:
    """Settings of a client, and its methods' arguments as exchanges. Sends nothing."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        timeout: Timeout | float | None,
        retries: Retry | int | None,
        headers: Mapping[str, str] | None,
        transport: HttpTransport | GrpcTransport | None,
        clock: Clock | None,
    ) -> None:
        self._url = url
        self._timeout = Timeout.of(timeout, Timeout())
        self._retry = Retry.of(retries, Retry())
        self._headers = _headers(api_key, headers)
        self._clock = clock or Clock()
        self._transport = transport
        self._wire = self._open_wire()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r}, timeout={self._timeout!r}, retries={self._retry!r})"

    def _open_wire(self) -> Wire:
        if _parts(self._url).scheme in ("grpc", "grpcs"):
            from ._grpc_wire import GrpcWire

            return GrpcWire()
        from ._http_wire import HttpWire

        return HttpWire(self._clock)

    def _sender(self) -> Sender:
        if address := self._grpc_address():
            from ._grpc_sender import GrpcSender

            return GrpcSender(address)
        from ._http_sender import HttpSender

        return HttpSender(self._url, self._headers, _option(self._transport, HttpTransport, self._url))

    def _async_sender(self) -> AsyncSender:
        if address := self._grpc_address():
            from ._grpc_sender import AsyncGrpcSender

            return AsyncGrpcSender(address)
        from ._http_sender import AsyncHttpSender

        return AsyncHttpSender(self._url, self._headers, _option(self._transport, HttpTransport, self._url))

    def _grpc_address(self) -> Any:
        parts = _parts(self._url)
        if parts.scheme not in ("grpc", "grpcs"):
            return None
        from ._grpc_sender import Address

        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return Address(
            target=f"{host}:{parts.port or c.DEFAULT_GRPC_PORT}",
            secure=parts.scheme == "grpcs",
            headers=self._headers,
            transport=_option(self._transport, GrpcTransport, self._url),
            timeout=self._timeout,
            clock=self._clock,
        )

    def _course(self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None) -> Course:
        retry = Retry(count=0) if exchange.probe else Retry.of(retries, self._retry)
        return Course(retry, Timeout.of(timeout, self._timeout), self._clock)

    @staticmethod
    def _forecast_call(
        history: Histories,
        model: str | None,
        version: Version,
        horizon: int | None,
        options: Mapping[str, Any] | None = None,
    ) -> ForecastCall:
        name, chosen = model, None if version is None else str(version)
        if model is not None:
            asked = target(model, version)
            name, chosen = asked.name, asked.version
        return forecast_call(history, model=name, version=chosen, horizon=horizon, options=options)

    @staticmethod
    def _text_call(
        path: str, asked: Mapping[str, Any], model: str | None, version: Version, *, streamed: bool
    ) -> TextCall:
        asked_of = None if model is None else target(model, version)
        chosen = None if version is None else str(version)
        if asked_of is None:
            return text_call(path, asked, None, chosen, streamed=streamed)
        return text_call(path, asked, asked_of.name, asked_of.version, streamed=streamed)

    @staticmethod
    def _infer_call(
        name: str, inputs: Inputs, version: Version, outputs: Iterable[str] | None, parameters: Mapping[str, Any] | None
    ) -> InferCall:
        chosen = None if outputs is None else tuple(outputs)
        return InferCall(target=target(name, version), inputs=inputs, outputs=chosen, parameters=dict(parameters or {}))


def target(name: str, version: Version = None) -> Target:
    """A model by "name" or "name:version", and a version given apart; UsageError if the two differ."""
    chosen = None if version is None else str(version)
    base, _, stated = name.partition(":")
    if not base:
        raise UsageError(f"got the model name {name!r}, expected one as client.models() lists them", field="model")
    if stated and chosen and stated != chosen:
        raise UsageError(f"model {name!r} names a version, and version={chosen!r} another", field="version")
    return Target(base, stated or chosen)


def _parts(url: str) -> SplitResult:
    """The address taken apart; UsageError if it is none of ours."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"got the address {url!r}: {error}", field="url") from error
    hint = f"for example {c.DEFAULT_URL} or grpc://127.0.0.1:{c.DEFAULT_GRPC_PORT}"
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname:
        raise UsageError(f"got the address {url!r}, expected http, https, grpc or grpcs://host", field="url", hint=hint)
    if parts.scheme.startswith("grpc") and parts.path.strip("/"):
        raise UsageError(f"got the address {url!r}, a gRPC address has no path", field="url", hint=hint)
    return parts


def _option(given: Any, kind: type[T], url: str) -> T:
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise UsageError(f"got {type(given).__name__} for {url!r}, expected {kind.__name__}", field="transport")
    return given


def _headers(api_key: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    key = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return {"User-Agent": f"pressroom-client/{__version__}", **key, **(headers or {})}
