"""What is sent: one wire's prepared requests, from the model's example, a file, or random tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from export.errors import OptionError
from pressroom.bench_http import Outcome
from pressroom.bench_oip import (
    JSON_TYPE,
    Tensors,
    as_binary,
    as_json,
    as_message,
    read_answer,
    read_inputs,
    read_message,
)
from pressroom.bench_target import Model, Server
from services.core.tensors import DTYPES

WIRES = ("native", "oip-json", "oip-binary", "grpc")
VARIANTS = 16  # different random requests, in turn
REQUEST = "request"  # the BYTES tensor our models take a native request in
_UNREAD = frozenset({"request_id", "timings", "batch_rows", "id", "created", "usage"})  # differ from call to call


@dataclass(frozen=True)
class Payload:
    """What one request holds: a native document with its route, tensors, or both.

    tensors  one set for every request that is sent in turn
    """

    native: tuple[str, dict[str, Any]] | None
    tensors: list[dict[str, npt.NDArray[Any]]]

    @property
    def wires(self) -> list[str]:
        """The ways it can be sent."""
        return [wire for wire in WIRES if (self.native if wire == "native" else self.tensors)]


def from_model(model: Model, rows: int, shapes: Mapping[str, list[int]], seed: int) -> Payload:
    """The model's example as native request, and tensors for the protocol. Raises OptionError if neither is known."""
    wanted = [spec for spec in model.inputs if spec["name"] not in model.optional]
    if [spec["name"] for spec in wanted] == [REQUEST]:
        if model.example is None:
            raise OptionError(f"{model.name} takes documents and the server has no example", "give one: --input FILE")
        return Payload(model.example, [document_tensor(model.example[1])])
    random = np.random.default_rng(seed)
    tensors = [{spec["name"]: _random(spec, rows, shapes, random) for spec in wanted} for _ in range(VARIANTS)]
    if not wanted and model.example is None:
        raise OptionError(
            f"the server does not say what {model.name} takes", "give a request: --input FILE --route /v1/..."
        )
    return Payload(model.example if rows == 1 else None, tensors if wanted else [])


def from_file(file: Path, model: Model, route: str | None) -> Payload:
    """A JSON file: an infer request of the protocol ({"inputs": ...}) or a native request. Raises OptionError."""
    try:
        document = orjson.loads(file.read_bytes())
        if not isinstance(document, dict):
            raise ValueError("no object")
        if "inputs" in document:
            return Payload(None, [read_inputs(document)])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{file.name} is no request: {error}", "a JSON object, native or {'inputs': [...]}") from None
    known = route or (model.example[0] if model.example else None)
    if known is None:
        raise OptionError(f"{file.name}: the server does not say where {model.name} takes it", "give --route /v1/...")
    takes_documents = [spec["name"] for spec in model.inputs] == [REQUEST]
    named = {"model": model.name, **document}
    return Payload((known, named), [document_tensor(named)] if takes_documents else [])


def document_tensor(document: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """A native request as the one tensor it travels in."""
    tensor = np.empty(1, dtype=object)
    tensor[0] = orjson.dumps(document)
    return {REQUEST: tensor}


def _random(
    spec: Mapping[str, Any], rows: int, shapes: Mapping[str, list[int]], random: np.random.Generator
) -> npt.NDArray[Any]:
    """Standard normal numbers, bytes 0 to 255, or small whole numbers, in the tensor's shape."""
    name, kind = spec["name"], spec["datatype"]
    shape = shapes.get(name) or [rows if i == 0 and n == -1 else n for i, n in enumerate(spec["shape"])]
    if -1 in shape or kind not in DTYPES or kind == "BYTES":
        why = f"{kind} tensors cannot be made up" if kind == "BYTES" else f"its shape is {spec['shape']}"
        raise OptionError(f"input {name!r}: {why}", f"give a request (--input FILE) or a shape (--shape {name}=1,96,7)")
    dtype = DTYPES[kind]
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2 if dtype.kind == "b" else 256 if kind == "UINT8" else 100, shape).astype(dtype)


def prepare(wire: str, payload: Payload, model: Model, server: Server) -> list[bytes]:
    """The requests of a wire, ready to be written: HTTP with head, or gRPC messages."""
    if wire == "native":
        assert payload.native is not None
        route, document = payload.native
        return [server.post(route, orjson.dumps(document), JSON_TYPE)]
    if wire == "grpc":
        return [as_message(model.name, model.version, tensors) for tensors in payload.tensors]
    version = f"/versions/{model.version}" if model.version else ""
    encode: Callable[[Tensors], tuple[bytes, dict[str, str]]] = as_json if wire == "oip-json" else as_binary
    bodies = [encode(tensors) for tensors in payload.tensors]
    return [server.post(f"/v2/models/{model.name}{version}/infer", body, headers) for body, headers in bodies]


def numbers(wire: str, outcome: Outcome) -> npt.NDArray[np.float64]:
    """All numbers of an answer, flat, what is another in every call left out. Raises ValueError if it is no answer."""
    try:
        if wire == "native":
            found: list[float] = []
            _collect(orjson.loads(outcome.body), found)
            return np.array(found)
        tensors = read_message(outcome.body) if wire == "grpc" else read_answer(outcome.head, outcome.body)
        return np.concatenate([_flat(tensor) for tensor in tensors.values()])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"an answer that cannot be read: {error}") from None


def _flat(tensor: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if tensor.dtype.kind in "biuf":
        return tensor.astype(np.float64).ravel()
    found: list[float] = []
    for item in tensor.ravel():
        _collect(orjson.loads(item), found)
    return np.array(found)


def _collect(value: Any, found: list[float]) -> None:
    if isinstance(value, bool | int | float):
        found.append(float(value))
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _UNREAD:
                _collect(item, found)
