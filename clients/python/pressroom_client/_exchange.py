"""The meeting point of the two halves of the client.

A *wire* (HTTP or gRPC) turns a method call into an Exchange: a request in the transport's own words and how to read
its answer. A *sender* (sync or async) carries the request once, and raises this package's errors. Neither knows of
the other, so there are two wires and four small senders instead of four clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from . import _constants as c
from ._config import Timeout
from ._errors import APITimeoutError, PressroomError
from ._forecast import ForecastCall
from ._image_calls import ImageCall
from ._tensors import Tensor
from ._text import TextCall
from ._text_types import TextResult
from ._types import ForecastResult, InferResult, ModelInfo, ModelMetadata, ServerInfo

T = TypeVar("T")
R = TypeVar("R", covariant=True)
Inputs = Mapping[str, np.ndarray | Tensor]


@dataclass(frozen=True)
class Target:
    """A model by name, and a version, or None: the server chooses."""

    name: str
    version: str | None = None


@dataclass(frozen=True, kw_only=True)
class InferCall:
    """One raw tensor call: inputs by name; outputs wanted, None: all; scalar parameters."""

    target: Target
    inputs: Inputs
    outputs: tuple[str, ...] | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One sending of a request.

    number      0 for the first
    request_id  the same for every attempt of a call
    timeout     cut to what is left of the call's total
    ends_at     on the clock `now`; None: never
    """

    number: int
    request_id: str
    timeout: Timeout
    ends_at: float | None
    now: Callable[[], float]

    def headers(self) -> dict[str, str]:
        """What this attempt tells the server on either transport."""
        retry = {c.RETRY_COUNT: str(self.number)} if self.number else {}
        return {c.REQUEST_ID: self.request_id, **retry}

    def left(self) -> float | None:
        """Seconds until the call's time is over, at least a millisecond; None: it never is."""
        return None if self.ends_at is None else max(self.ends_at - self.now(), 0.001)

    def check(self, request: str) -> None:
        """Raise APITimeoutError when the call's time is over."""
        if self.ends_at is not None and self.now() >= self.ends_at:
            message = "the call took longer than its total timeout"
            raise APITimeoutError(message, hint="raise timeout.total", request=request, request_id=self.request_id)


def fail(error: PressroomError) -> NoReturn:
    """What most exchanges do when there will be no further attempt."""
    raise error


@dataclass(frozen=True, kw_only=True)
class Exchange(Generic[T]):
    """A request in a transport's own words, and how to read its answer.

    request    what the transport's sender takes
    read       answer -> result; raises PressroomError
    otherwise  last error -> result, or raises it (a probe turns "not reachable" into False)
    probe      asked once, never retried
    """

    request: Any
    read: Callable[[Any], T]
    otherwise: Callable[[PressroomError], T] = fail
    probe: bool = False


class TaskCall(Protocol[R]):
    """A call whose request and answer are a task's own JSON. model None: the server chooses."""

    @property
    def path(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def version(self) -> str | None: ...
    @property
    def body(self) -> bytes: ...
    def read(self, body: bytes, request_id: str) -> R: ...


class Wire(Protocol):
    """The methods of the client in a transport's words. Nothing is sent here."""

    def forecast(self, call: ForecastCall) -> Exchange[ForecastResult]: ...
    def image(self, call: ImageCall[T]) -> Exchange[T]: ...
    def task(self, call: TaskCall[T]) -> Exchange[T]: ...
    def text(self, call: TextCall) -> Exchange[TextResult]: ...
    def stream(self, call: TextCall, follow: Callable[[Any], T]) -> Exchange[T]: ...
    def infer(self, call: InferCall) -> Exchange[InferResult]: ...
    def models(self) -> Exchange[list[ModelInfo]]: ...
    def model(self, target: Target) -> Exchange[ModelInfo]: ...
    def metadata(self, target: Target) -> Exchange[ModelMetadata]: ...
    def server(self) -> Exchange[ServerInfo]: ...
    def live(self) -> Exchange[bool]: ...
    def ready(self) -> Exchange[bool]: ...
    def model_ready(self, target: Target) -> Exchange[bool]: ...


class Sender(Protocol):
    """Carries one attempt of a request; blocks."""

    def send(self, request: Any, attempt: Attempt) -> Any: ...
    def close(self) -> None: ...


class AsyncSender(Protocol):
    """Carries one attempt of a request; awaits."""

    async def send(self, request: Any, attempt: Attempt) -> Any: ...
    async def close(self) -> None: ...
