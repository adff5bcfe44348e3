"""The client whose methods block. AsyncClient has the same ones, awaited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Literal, Self, TypeVar, Unpack, overload

import numpy as np

from . import _constants as c
from ._config import Clock, GrpcTransport, HttpTransport, Retry, Timeout
from ._core import Core, target
from ._ehr_methods import EhrMethods
from ._errors import PressroomError
from ._exchange import Exchange
from ._forecast_methods import ForecastMethods
from ._forecast_types import ForecastOptions
from ._history import Histories
from ._image_methods import ImageMethods
from ._streams import TextStream
from ._tensors import Tensor
from ._text import CHAT, COMPLETIONS, ChatOptions, CompletionOptions, Messages, Prompt, as_messages
from ._text_detect import TextDetectMethods
from ._text_types import TextResult
from ._types import ForecastResult, InferResult, ModelInfo, ModelMetadata, ServerInfo
from ._watermark_methods import WatermarkMethods

T = TypeVar("T")


class Client(EhrMethods, ForecastMethods, ImageMethods, TextDetectMethods, WatermarkMethods, Core):
    """A Pressroom server, over HTTP (http, https) or gRPC (grpc, grpcs); the address picks, the methods are the same.

        with Client("http://127.0.0.1:3000") as client:
            forecast = client.forecast(frame, model="itransformer-etth1").frame

    url        http://host:port, https://..., grpc://host[:3001] or grpcs://...
    api_key    sent as a bearer token
    timeout    seconds for a whole call, or a Timeout; None: Timeout(), which ends every call within 60 s
    retries    further attempts after the first, or a Retry; None: Retry(), two of them
    headers    sent with every request (over gRPC as metadata)
    transport  HttpTransport or GrpcTransport: certificates, proxies, sizes
    clock      time and chance, for tests

    Safe to share between threads. Raises UsageError if the address or the options make no sense.
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
        self._connection = self._sender()

    def forecast(
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
        """Forecast one or several series; raw units in, raw units out.

        history   one series: a wide frame (DatetimeIndex, or a column `date` or `timestamp`), a History, or a mapping
                  column -> [L]; several: a list of these, or a mapping id -> frame or History. At least the model's
                  look-back of time steps; of more, the last are used and a warning says so
        model     name, or "name:version"; None: the server's only model (HTTP; over gRPC, name it)
        version   None: the server chooses
        horizon   time steps to forecast, 1 to the model's horizon (see roll_out); None: all of it
        timeout   seconds for the whole call, or a Timeout; None: the client's
        retries   further attempts, or a Retry; None: the client's
        options   intervals, missing values, columns, longer horizons: see ForecastOptions

        Raises one error class per reason, see `pressroom_client.BadRequest` and its neighbours: HistoryTooShort,
        ColumnsMissing, ValueNotFinite, TimestampsGap, ModelNotFound, QueueFull ...
        """
        return self._run(
            self._wire.forecast(self._forecast_call(history, model, version, horizon, options)), timeout, retries
        )

    @overload
    def complete(
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
    def complete(
        self,
        prompt: Prompt,
        *,
        stream: Literal[True],
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[CompletionOptions],
    ) -> TextStream: ...

    def complete(
        self,
        prompt: Prompt,
        *,
        stream: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[CompletionOptions],
    ) -> TextResult | TextStream:
        """Continue a text, or several.

        prompt   text or token ids, or a list of either
        model    name, or "name:version"; None: the server's only language model
        version  None: the server chooses
        stream   True: a TextStream, whose pieces come as they are made; the call returns with the first of them
        timeout  seconds for the whole call, the stream included, or a Timeout; None: the client's
        retries  further attempts before the first piece, or a Retry; None: the client's
        options  how to generate, see CompletionOptions

        Raises EmptyPrompt, ContextLengthExceeded, InvalidRequest, NotSupported, ModelNotFound, QueueFull ...
        """
        call = self._text_call(COMPLETIONS, {"prompt": prompt, **options}, model, version, streamed=stream)
        if stream:
            return self._run(self._wire.stream(call, TextStream), timeout, retries)
        return self._run(self._wire.text(call), timeout, retries)

    @overload
    def chat(
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
    def chat(
        self,
        messages: Messages,
        *,
        stream: Literal[True],
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ChatOptions],
    ) -> TextStream: ...

    def chat(
        self,
        messages: Messages,
        *,
        stream: bool = False,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ChatOptions],
    ) -> TextResult | TextStream:
        """Answer a conversation.

        messages  [{"role": "user", "content": "..."}, ...]; a string is one message of the user
        options   how to generate, see ChatOptions

        Everything else as in `complete`.
        """
        call = self._text_call(CHAT, {"messages": as_messages(messages), **options}, model, version, streamed=stream)
        if stream:
            return self._run(self._wire.stream(call, TextStream), timeout, retries)
        return self._run(self._wire.text(call), timeout, retries)

    def infer(
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
        """Run a model on raw tensors, by the Open Inference Protocol.

        name        of the model, or "name:version"
        inputs      name -> array, or Tensor where the dtype does not say the datatype (BF16); object, bytes and str
                    arrays travel as BYTES. Nothing is converted: a float64 array is FP64
        outputs     names wanted; None: all
        parameters  scalars by name, as the model defines them

        Raises TensorMissing, TensorDtype, TensorShape, TensorSize, TensorUnexpected, OutputUnknown, ModelNotFound ...
        """
        return self._run(
            self._wire.infer(self._infer_call(name, inputs, version, outputs, parameters)), timeout, retries
        )

    def models(
        self,
        *,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> list[ModelInfo]:
        """What is served. Over gRPC name, version(s), state and reason only."""
        return self._run(self._wire.models(), timeout, retries)

    def model(
        self,
        name: str,
        *,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> ModelInfo:
        """One served model; ModelNotFound or VersionNotFound if it is not. Over gRPC name and version(s) only."""
        return self._run(self._wire.model(target(name, version)), timeout, retries)

    def metadata(
        self,
        name: str,
        *,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> ModelMetadata:
        """A model's input and output tensors; ModelNotFound or VersionNotFound if it is not served."""
        return self._run(self._wire.metadata(target(name, version)), timeout, retries)

    def server(
        self,
        *,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
    ) -> ServerInfo:
        """The server's name, version and protocol extensions."""
        return self._run(self._wire.server(), timeout, retries)

    def live(
        self,
        *,
        timeout: Timeout | float | None = None,
    ) -> bool:
        """Whether the server process answers; False if it cannot be reached. Asked once, never retried."""
        return self._run(self._wire.live(), timeout)

    def ready(
        self,
        *,
        timeout: Timeout | float | None = None,
    ) -> bool:
        """Whether the server takes requests; False if it does not or cannot be reached. Asked once, never retried."""
        return self._run(self._wire.ready(), timeout)

    def model_ready(
        self,
        name: str,
        *,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
    ) -> bool:
        """Whether this model takes requests, as `ready`; ModelNotFound if it is not served."""
        return self._run(self._wire.model_ready(target(name, version)), timeout)

    def _run(self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None) -> T:
        course = self._course(exchange, timeout, retries)
        while True:
            try:
                return exchange.read(self._connection.send(exchange.request, course.attempt()))
            except PressroomError as error:
                pause = course.pause_after(error)
                if pause is None:
                    return exchange.otherwise(error)
            self._clock.sleep(pause)

    def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
