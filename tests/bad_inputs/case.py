"""What a case of the corpus is, and how its body is written: one good request with one thing changed.

`but(document, "series.0.values.OT.17", None)` is the document with that place changed; `without` removes the place.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import etth1
from refusals import infer_message

FORECAST = etth1.FORECAST
INFER = f"/v2/models/{etth1.ITRANSFORMER}/infer"
INFER_CARD = f"/v2/models/{etth1.CARD}/infer"
LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class HttpCase:
    """A request as it goes over the wire, and the status, code and field of its refusal.

    body  bytes as they are; anything else is written as JSON
    """

    name: str
    path: str
    body: Any
    status: int
    code: str
    field: str | None = None
    method: str = "POST"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def wire(self) -> bytes:
        """The whole request; Content-Length is added unless the case brings its own framing."""
        framed = {"content-length", "transfer-encoding"} & {name.lower() for name in self.headers}
        fields = {"Host": "test"} | ({} if framed else {"Content-Length": str(len(self.content))}) | dict(self.headers)
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.content


@dataclass(frozen=True)
class GrpcCase:
    """A call with its message as bytes, and the status, code and field of its refusal.

    status  "OK" for the stream: its refusals are answers
    """

    name: str
    call: str
    message: bytes
    status: str
    code: str
    field: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        return self.call if self.call.startswith("/") else f"/inference.GRPCInferenceService/{self.call}"


def _place(document: Any, path: str) -> tuple[Any, Any, str]:
    """A copy of the document, the container of the place, and its last step."""
    whole = copy.deepcopy(document)
    *steps, last = path.split(".")
    inside = whole
    for step in steps:
        inside = inside[int(step)] if isinstance(inside, list) else inside[step]
    return whole, inside, last


def but(document: Any, path: str, value: Any) -> Any:
    """The document with `value` at a dotted path."""
    whole, inside, last = _place(document, path)
    inside[int(last) if isinstance(inside, list) else last] = value
    return whole


def edited(document: Any, path: str, edit: Callable[[Any], Any]) -> Any:
    """The document with what is at a dotted path replaced by `edit` of it."""
    whole, inside, last = _place(document, path)
    key: Any = int(last) if isinstance(inside, list) else last
    inside[key] = edit(inside[key])
    return whole


def without(document: Any, path: str) -> Any:
    """The document without what is at a dotted path."""
    whole, inside, last = _place(document, path)
    del inside[int(last) if isinstance(inside, list) else last]
    return whole


def nested(depth: int) -> list[Any]:
    """Lists within lists."""
    innermost: list[Any] = []
    for _ in range(depth - 1):
        innermost = [innermost]
    return innermost


def tensor(**changed: Any) -> dict[str, Any]:
    """A good `history` input in JSON with some of its fields changed."""
    data = etth1.history().ravel().tolist()
    return {"name": "history", "datatype": "FP32", "shape": [1, 96, 7], "data": data} | changed


def clock(**changed: Any) -> dict[str, Any]:
    """A good `timestamps` input in JSON with some of its fields changed."""
    return {"name": "timestamps", "datatype": "INT64", "shape": [1, 96], "data": etth1.epochs()} | changed


def infer(*inputs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An inference request in JSON."""
    return {"inputs": list(inputs)} | fields


def message(*inputs: tuple[str, str, list[int], bytes], model: str = etth1.ITRANSFORMER, **fields: Any) -> Any:
    """A ModelInferRequest with raw contents: inputs are (name, datatype, shape, bytes)."""
    whole = infer_message(model, **fields)
    for name, datatype, shape, raw in inputs:
        whole.inputs.add(name=name, datatype=datatype, shape=shape)
        whole.raw_input_contents.append(raw)
    return whole
