"""The client whose methods are awaited. Same names, arguments, results and errors as Client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Literal, Self, TypeVar, Unpack, overload

import numpy as np

from . import _constants as c
from ._config import Clock, GrpcTransport, HttpTransport, Retry, Timeout
from ._core import Core, target
from ._ehr_methods import AsyncEhrMethods
from ._errors import PressroomError
from ._exchange import Exchange
from ._forecast_methods import AsyncForecastMethods
from ._forecast_types import ForecastOptions
from ._history import Histories
from ._image_methods import AsyncImageMethods
from ._streams import AsyncTextStream
from ._tensors import Tensor
from ._text import CHAT, COMPLETIONS, ChatOptions, CompletionOptions, Messages, Prompt, as_messages
from ._text_detect import AsyncTextDetectMethods
from ._text_types import TextResult
from ._types import ForecastResult, InferResult, ModelInfo, ModelMetadata, ServerInfo
from ._watermark_methods import AsyncWatermarkMethods

T = TypeVar("T")


class AsyncClient(
    AsyncEhrMethods, AsyncForecastMethods, AsyncImageMethods, AsyncTextDetectMethods, AsyncWatermarkMethods, Core
):
    """A Pressroom server, over HTTP (http, https) or gRPC (grpc, grpcs); the address picks, the methods are the same.

        async with AsyncClient("grpc://127.0.0.1:3001") as client:
            result = await client.forecast(frame, model="itransformer-etth1")

    url        http://host:port, https://..., grpc://host[:3001] or grpcs://...
    api_key    sent as a bearer token
    timeout    seconds for a whole call, or a Timeout; None: Timeout(), which ends every call within 60 s
    retries    further attempts after the first, or a Retry; None: Retry(), two of them
    headers    sent with every request (over gRPC as metadata)
    transport  HttpTransport or GrpcTransport: certificates, proxies, sizes
    clock      time and chance, for tests

    Use it in one event loop; any number of calls may run at once.
    Raises UsageError if the address or the options make no sense.
    """

    def __init__(
        self,
        url: str = c.DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        headers: Mapping[str, str] | None = None,
        transport: HttpTransport | GrpcTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            url,
            api_key=api_key,
            timeout=timeout,
            retries=retries,
            headers=headers,
            transport=transport,
            clock=clock,
        )
        self._connection = self._async_sender()

    async def forecast(
        self,
        history: Histories,
        *,
        model: str | None = None,
        version: str | int | None = None,
        horizon: int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ForecastOptions],
    ) -> ForecastResult:
        """See Client.forecast."""
        return await self._run(
            self._wire.forecast(self._forecast_call(history, model, version, horizon, options)), timeout, retries
        )

    @overload
    async def complete(
        self,
        prompt: Prompt,
        *,
        stream: Literal[False] = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[CompletionOptions],
    ) -> TextResult: ...

    @overload
    async def complete(
        self,
        prompt: Prompt,
        *,
        stream: Literal[True],
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[CompletionOptions],
    ) -> AsyncTextStream: ...

    async def complete(
        self,
        prompt: Prompt,
        *,
        stream: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[CompletionOptions],
    ) -> TextResult | AsyncTextStream:
        """See Client.complete."""
        call = self._text_call(COMPLETIONS, {"prompt": prompt, **options}, model, version, streamed=stream)
        if stream:
            return await self._run(self._wire.stream(call, AsyncTextStream), timeout, retries)
        return await self._run(self._wire.text(call), timeout, retries)

    @overload
    async def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[False] = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ChatOptions],
    ) -> TextResult: ...

    @overload
    async def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[True],
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ChatOptions],
    ) -> AsyncTextStream: ...

    async def chat(
        self,
        messages: Messages,
        *,
        stream: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ChatOptions],
    ) -> TextResult | AsyncTextStream:
        """See Client.chat."""
        call = self._text_call(CHAT, {"messages": as_messages(messages), **options}, model, version, streamed=stream)
        if stream:
            return await self._run(self._wire.stream(call, AsyncTextStream), timeout, retries)
        return await self._run(self._wire.text(call), timeout, retries)

    async def infer(
        self,
        name: str,
        inputs: Mapping[str, np.ndarray | Tensor],
        *,
        version: str | int | None = None,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> InferResult:
        """See Client.infer."""
        return await self._run(
            self._wire.infer(self._infer_call(name, inputs, version, outputs, parameters)), timeout, retries
        )

    async def models(
        self,
        *,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> list[ModelInfo]:
        """See Client.models."""
        return await self._run(self._wire.models(), timeout, retries)

    async def model(
        self,
        name: str,
        *,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> ModelInfo:
        """See Client.model."""
        return await self._run(self._wire.model(target(name, version)), timeout, retries)

    async def metadata(
        self,
        name: str,
        *,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> ModelMetadata:
        """See Client.metadata."""
        return await self._run(self._wire.metadata(target(name, version)), timeout, retries)

    async def server(
        self,
        *,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> ServerInfo:
        """See Client.server."""
        return await self._run(self._wire.server(), timeout, retries)

    async def live(
        self,
        *,
        timeout: Timeout | float | None = None,
    ) -> bool:
        """See Client.live."""
        return await self._run(self._wire.live(), timeout)

    async def ready(
        self,
        *,
        timeout: Timeout | float | None = None,
    ) -> bool:
        """See Client.ready."""
        return await self._run(self._wire.ready(), timeout)

    async def model_ready(
        self,
        name: str,
        *,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
    ) -> bool:
        """See Client.model_ready."""
        return await self._run(self._wire.model_ready(target(name, version)), timeout)

    async def _run(
        self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
    ) -> T:
        course = self._course(exchange, timeout, retries)
        while True:
            try:
                return exchange.read(await self._connection.send(exchange.request, course.attempt()))
            except PressroomError as error:
                pause = course.pause_after(error)
                if pause is None:
                    return exchange.otherwise(error)
            await self._clock.async_sleep(pause)

    async def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
