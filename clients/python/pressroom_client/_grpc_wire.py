"""gRPC: the client's methods as Open Inference Protocol calls, and how to read their answers.

A forecast is a ModelInfer whose one BYTES input `request` holds the native JSON and whose one BYTES output `response`
holds the native answer. Listing models is RepositoryIndex, which knows names, versions and states only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ._errors import UnexpectedAnswer, UsageError
from ._exchange import Exchange, InferCall, Target, TaskCall
from ._forecast import ForecastCall
from ._grpc_messages import Method, get_parameters, methods, set_parameters
from ._http_wire import not_now
from ._image_calls import ImageCall
from ._infer import result
from ._tensors import RawTensor, decode, encode, from_elements
from ._text import TextCall
from ._text_types import TextResult
from ._types import ForecastResult, InferResult, ModelInfo, ModelMetadata, ServerInfo, TensorSpec

T = TypeVar("T")
R = TypeVar("R", covariant=True)

REQUEST, RESPONSE = "request", "response"


@dataclass(frozen=True)
class GrpcRequest:
    """What a sender needs to send."""

    method: Method
    message: Any


@dataclass(frozen=True)
class GrpcReply:
    """What came back."""

    message: Any
    request_id: str


class NativeCall(Protocol[R]):
    """A call whose request and answer are a task's own JSON."""

    @property
    def model(self) -> str | None: ...
    @property
    def version(self) -> str | None: ...
    @property
    def body(self) -> bytes: ...
    def read(self, body: bytes, request_id: str) -> R: ...


class GrpcWire:
    """The client's methods as RPCs."""

    def __init__(self) -> None:
        self._methods = methods()

    def forecast(self, call: ForecastCall) -> Exchange[ForecastResult]:
        return self._native(call)

    def image(self, call: ImageCall[T]) -> Exchange[T]:
        return self._native(call)

    def task(self, call: TaskCall[T]) -> Exchange[T]:
        return self._native(call)

    def text(self, call: TextCall) -> Exchange[TextResult]:
        return self._native(call)

    def stream(self, call: TextCall, follow: Callable[[Any], T]) -> Exchange[T]:
        hint = "leave stream out, or give the client an http:// address"
        raise UsageError("text is not streamed over gRPC", field="stream", hint=hint)

    def _native(self, call: NativeCall[T]) -> Exchange[T]:
        """A task's own JSON in one BYTES tensor."""
        inputs = {REQUEST: np.array([call.body], dtype=object)}
        target = Target(call.model or "", call.version)
        infer = InferCall(target=target, inputs=inputs, outputs=(RESPONSE,), parameters={})

        def read(reply: GrpcReply) -> T:
            outputs = _outputs(reply.message)
            if RESPONSE not in outputs or outputs[RESPONSE].shape != (1,):
                message = f"the answer has outputs {list(outputs)}, expected one BYTES [1] named {RESPONSE!r}"
                raise UnexpectedAnswer(message, hint="does this model do what it was asked for?")
            return call.read(outputs[RESPONSE][0], reply.request_id)

        return Exchange(request=self._infer(infer), read=read)

    def infer(self, call: InferCall) -> Exchange[InferResult]:
        def read(reply: GrpcReply) -> InferResult:
            said, parameters = reply.message, get_parameters(reply.message.parameters)
            return result(_outputs(said), said.model_name, said.model_version, parameters, reply.request_id)

        return Exchange(request=self._infer(call), read=read)

    def models(self) -> Exchange[list[ModelInfo]]:
        request = self._request("RepositoryIndex", repository_name="", ready=False)
        return Exchange(request=request, read=lambda reply: _index(reply.message.models))

    def model(self, target: Target) -> Exchange[ModelInfo]:
        def read(reply: GrpcReply) -> ModelInfo:
            versions = tuple(reply.message.versions)
            version = target.version or (versions[0] if len(versions) == 1 else None)
            return ModelInfo(name=reply.message.name, version=version, versions=versions)

        return Exchange(request=self._of_model("ModelMetadata", target), read=read)

    def metadata(self, target: Target) -> Exchange[ModelMetadata]:
        return Exchange(request=self._of_model("ModelMetadata", target), read=_metadata)

    def server(self) -> Exchange[ServerInfo]:
        def read(reply: GrpcReply) -> ServerInfo:
            said = reply.message
            return ServerInfo(name=said.name, version=said.version, extensions=tuple(said.extensions))

        return Exchange(request=self._request("ServerMetadata"), read=read)

    def live(self) -> Exchange[bool]:
        return _probe(self._request("ServerLive"), "live")

    def ready(self) -> Exchange[bool]:
        return _probe(self._request("ServerReady"), "ready")

    def model_ready(self, target: Target) -> Exchange[bool]:
        return _probe(self._of_model("ModelReady", target), "ready")

    def _request(self, call: str, /, **fields: Any) -> GrpcRequest:
        method = self._methods[call]
        return GrpcRequest(method, method.request(**fields))

    def _of_model(self, call: str, target: Target) -> GrpcRequest:
        return self._request(call, name=target.name, version=target.version or "")

    def _infer(self, call: InferCall) -> GrpcRequest:
        request = self._request("ModelInfer", model_name=call.target.name, model_version=call.target.version or "")
        message = request.message
        set_parameters(message.parameters, call.parameters)
        for tensor in (encode(name, value) for name, value in call.inputs.items()):
            message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            message.raw_input_contents.append(tensor.content)
        for name in call.outputs or ():
            message.outputs.add(name=name)
        return request


def _probe(request: GrpcRequest, field: str) -> Exchange[bool]:
    def read(reply: GrpcReply) -> bool:
        return bool(getattr(reply.message, field))

    return Exchange(request=request, read=read, otherwise=not_now, probe=True)


def _outputs(message: Any) -> dict[str, np.ndarray]:
    """Outputs by name: raw if the answer has raw contents, else element by element."""
    raw = message.raw_output_contents
    if not raw:
        return {out.name: _typed(out) for out in message.outputs}
    if len(raw) != len(message.outputs):
        raise UnexpectedAnswer(f"the answer has {len(message.outputs)} outputs and {len(raw)} raw contents")
    pairs = zip(message.outputs, raw, strict=True)
    return {out.name: decode(RawTensor(out.name, out.datatype, tuple(out.shape), content)) for out, content in pairs}


def _typed(out: Any) -> np.ndarray:
    """The one repeated field that is filled; none is, when the tensor has no elements."""
    filled = out.contents.ListFields()
    return from_elements(out.name, out.datatype, tuple(out.shape), list(filled[0][1]) if filled else [])


def _metadata(reply: GrpcReply) -> ModelMetadata:
    said = reply.message
    return ModelMetadata(
        name=said.name,
        versions=tuple(said.versions),
        platform=said.platform,
        inputs=_specs(said.inputs),
        outputs=_specs(said.outputs),
    )


def _specs(tensors: Iterable[Any]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(tensor.name, tensor.datatype, tuple(tensor.shape)) for tensor in tensors)


def _index(entries: Iterable[Any]) -> list[ModelInfo]:
    """One ModelInfo per entry; entries are per version, and each lists all versions of its name."""
    entries = list(entries)
    versions: dict[str, list[str]] = {}
    for entry in entries:
        versions.setdefault(entry.name, []).extend([entry.version] if entry.version else [])
    return [
        ModelInfo(
            name=entry.name,
            version=entry.version or None,
            versions=tuple(versions[entry.name]),
            state=entry.state or None,
            reason=entry.reason or None,
        )
        for entry in entries
    ]
