"""ModelInfer messages that look like earlier ones, answered without protobuf and without a task.

A client's messages differ in their tensors only, and those stand at the end. So the bytes in front of them are kept
with what they said, and a message that begins with the same bytes and is exactly as long says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from services.core.call import Call
from services.core.errors import ApiError
from services.core.http2.rpc import Rpc
from services.core.metrics import InFlight
from services.core.oip.direct import Direct, Form
from services.core.oip.grpc_codec import encode_response
from services.core.oip.grpc_error import error_metadata
from services.core.oip.grpc_wire import block
from services.core.oip.inference import Parameters
from services.core.oip.layout import InferRequest, layout_of
from services.core.oip.messages import ModelInferRequest
from services.core.serving import Serving
from services.core.tensors import Tensors

MOST_MESSAGES, MOST_START_BYTES = 256, 2048
_RAW_CONTENTS = 7  # the field, the last of a ModelInferRequest


@dataclass(frozen=True)
class Message:
    """A kind of message.

    start  everything in front of the first tensor's bytes
    tags   what stands in front of each further tensor's bytes, and where
    """

    start: bytes
    tags: tuple[tuple[int, bytes], ...]
    form: Form

    def matches(self, raw: bytes) -> bool:
        return raw.startswith(self.start) and all(raw.startswith(tag, at) for at, tag in self.tags)


class Messages:
    """Kinds of messages that were read before, by size."""

    def __init__(self) -> None:
        self._known: dict[int, list[Message]] = {}
        self._count = 0

    def recall(self, raw: bytes) -> Message | None:
        """The kind of a message, if one of it came before."""
        for message in self._known.get(len(raw), ()):
            if message.matches(raw):
                return message
        return None

    def keep(self, raw: bytes, sent: Any, tensors: Tensors) -> None:
        """Remember a message that was answered. sent: it as protobuf reads it; tensors: those it brought."""
        message = _kind(raw, sent, tensors)
        if message is None or self.recall(raw) is not None:
            return
        if self._count >= MOST_MESSAGES:
            self._known.clear()
            self._count = 0
        self._known.setdefault(len(raw), []).append(message)
        self._count += 1


def _kind(raw: bytes, sent: Any, tensors: Tensors) -> Message | None:
    """None for a message whose tensors are not all raw, of fixed size, and at its end."""
    contents = sent.raw_input_contents
    if not contents or any(t.dtype.kind == "O" or not t.size for t in tensors.values()):
        return None
    fields = [block(_RAW_CONTENTS, content) for content in contents]
    first = len(raw) - sum(map(len, fields))
    if first < 0 or not raw.endswith(b"".join(fields)) or not _is_without_tensors(raw[:first]):
        return None
    tags, starts, at = [], [], first
    for field, content in zip(fields, contents, strict=True):
        starts.append(at + len(field) - len(content))
        tags.append((at, field[: -len(content)]))
        at += len(field)
    if starts[0] > MOST_START_BYTES:
        return None
    outputs: dict[str, bool | None] | None = {o.name: None for o in sent.outputs} or None
    layout = layout_of(InferRequest(sent.id, tensors, outputs, binary=True), starts)
    return Message(raw[: starts[0]], tuple(tags[1:]), Form(sent.model_name, sent.model_version, layout))


def _is_without_tensors(start: bytes) -> bool:
    """Whether the beginning of a message is one itself, so that nothing of it reaches into its end."""
    try:
        return not ModelInferRequest.FromString(start).raw_input_contents
    except DecodeError:
        return False


class Ride(Direct):
    """One such message's call."""

    __slots__ = ("_rpc",)

    def __init__(self, serving: Serving, in_flight: InFlight, request: InferRequest, call: Call, rpc: Rpc) -> None:
        super().__init__(serving, in_flight, request, call)
        self._rpc = rpc

    def _answer(self, outputs: Tensors, parameters: Parameters) -> None:
        model = self._model
        trailing = (("x-request-id", self.call.request_id), *self._admission.headers.items())
        self._rpc.reply(encode_response(model.name, model.version, self._request.id, outputs, parameters), trailing)

    def _refuse(self, error: ApiError) -> None:
        status = getattr(grpc.StatusCode, error.status.grpc)
        self._rpc.refuse(status, error.message, error_metadata(error, self.call.request_id))
