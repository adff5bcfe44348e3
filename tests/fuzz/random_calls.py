"""Seeded random gRPC calls: senseless tensors, torn messages, noise, odd metadata, short deadlines, cancels."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import etth1
from refusals import infer_message
from tritonclient.grpc import service_pb2

SERVICE = "/inference.GRPCInferenceService/"
DOCUMENTS = (
    "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "RepositoryIndex",
    "RepositoryModelLoad", "RepositoryModelUnload",
)  # fmt: skip
STREAMS = (
    f"{SERVICE}ModelStreamInfer",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
_NAMES = ("history", "timestamps", "request", "forecast", "", "x", "é" * 50, "n" * 3000, "history\0", "__class__")
_TYPES = ("FP32", "INT64", "BYTES", "FP64", "FP16", "BOOL", "UINT8", "INT8", "UINT64", "", "fp32", "BF16", "object")
_SIZES = (0, 1, 2, 7, 95, 96, 97, 300, 1024, 1025, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -1, -7, -(2**63))
_MODELS = (etth1.ITRANSFORMER, etth1.CARD, "", "nobody", "../..", "m" * 5000, f"{etth1.CARD}:1")
_VERSIONS = ("", "", "", "1", "2", "-1", "latest", "v" * 500)
_RAW, _CLOCK = etth1.history().tobytes(), etth1.clock().tobytes()
_NATIVE = json.dumps(etth1.request()).encode()


@dataclass(frozen=True)
class RandomCall:
    """One call.

    messages  one, or several for a stream
    timeout   seconds the caller gives it
    cancel    seconds after which the caller hangs up, or None
    """

    path: str
    messages: tuple[bytes, ...]
    metadata: tuple[tuple[str, str | bytes], ...]
    timeout: float
    cancel: float | None

    @property
    def streams(self) -> bool:
        return self.path in STREAMS


def random_call(draw: random.Random) -> RandomCall:
    """The next call of a seeded generator."""
    kind = draw.random()
    if kind < 0.70:
        path, messages = f"{SERVICE}ModelInfer", (_message(draw),)
    elif kind < 0.85:
        path, messages = _document(draw)
    elif kind < 0.95:
        path = draw.choice(STREAMS)
        messages = tuple(_message(draw) if "Infer" in path else _noise(draw, 30) for _ in range(draw.randint(1, 4)))
    else:
        path, messages = _nowhere(draw), (_noise(draw, 60),)
    return RandomCall(
        path=path,
        messages=messages,
        metadata=_metadata(draw),
        timeout=draw.choice((0.001, 0.003, 0.01, 0.05, 20, 20, 20, 20)),
        cancel=draw.uniform(0, 0.02) if draw.random() < 0.1 else None,
    )


def _message(draw: random.Random) -> bytes:
    makers: tuple[Callable[[random.Random], bytes], ...] = (_tensors, _almost_good, _typed, _native, _torn)
    return draw.choices(makers, (5, 4, 2, 2, 3))[0](draw) if draw.random() < 0.95 else _noise(draw, 4000)


def _noise(draw: random.Random, most: int) -> bytes:
    return draw.randbytes(draw.randint(0, most))


def _shape(draw: random.Random) -> list[int]:
    return [draw.choice(_SIZES) for _ in range(draw.choice((0, 1, 2, 3, 3, 3, 4, 8, 9, 200)))]


def _bytes(draw: random.Random) -> bytes:
    return draw.choice((b"", _RAW, _CLOCK, _RAW[:-1], _RAW * 2, _RAW + b"\0", _noise(draw, 3000), b"\xff" * 2688))


def _tensors(draw: random.Random) -> bytes:
    """Nothing fits anything."""
    whole = infer_message(draw.choice(_MODELS), draw.choice(_VERSIONS), id="i" * draw.randint(0, 300))
    for _ in range(draw.randint(0, 4)):
        whole.inputs.add(name=draw.choice(_NAMES), datatype=draw.choice(_TYPES), shape=_shape(draw))
    for _ in range(draw.choice((0, len(whole.inputs), len(whole.inputs), draw.randint(0, 5)))):
        whole.raw_input_contents.append(_bytes(draw))
    for _ in range(draw.choice((0, 0, 0, 1, 3))):
        whole.outputs.add(name=draw.choice(_NAMES))
    return bytes(whole.SerializeToString())


def _good() -> Any:
    whole = infer_message(etth1.ITRANSFORMER)
    whole.inputs.add(name="history", datatype="FP32", shape=[1, 96, 7])
    whole.inputs.add(name="timestamps", datatype="INT64", shape=[1, 96])
    whole.raw_input_contents.extend((_RAW, _CLOCK))
    return whole


def _almost_good(draw: random.Random) -> bytes:
    """A good request with one thing wrong, or nothing."""
    whole = _good()
    entry = draw.choice(list(whole.inputs))
    match draw.randrange(8):
        case 0:
            entry.name = draw.choice(_NAMES)
        case 1:
            entry.datatype = draw.choice(_TYPES)
        case 2:
            entry.shape[draw.randrange(len(entry.shape))] = draw.choice(_SIZES)
        case 3:
            whole.raw_input_contents[draw.randrange(2)] = _bytes(draw)
        case 4:
            whole.raw_input_contents[0] = draw.randbytes(len(_RAW))
        case 5:
            whole.raw_input_contents[1] = draw.randbytes(len(_CLOCK))
        case 6:
            whole.outputs.add(name=draw.choice(_NAMES))
    return bytes(whole.SerializeToString())


def _typed(draw: random.Random) -> bytes:
    """Typed contents of any field for any declaration."""
    whole = infer_message(draw.choice(_MODELS[:2]))
    shape = draw.choice(([1, 96, 7], [1, 96], [2**30, 2**30, 16], [0], []))
    entry = whole.inputs.add(name=draw.choice(_NAMES[:3]), datatype=draw.choice(_TYPES[:9]), shape=shape)
    count = draw.choice((0, 1, 96, 672, draw.randint(0, 700)))
    field, value = draw.choice(
        (("fp32_contents", draw.choice((1.5, 3e38, float("nan")))), ("int64_contents", draw.choice((0, -(2**63)))),
         ("int_contents", 2**31 - 1), ("uint64_contents", 2**64 - 1), ("bool_contents", True), ("fp64_contents", 1e300),
         ("bytes_contents", b"{}"))
    )  # fmt: skip
    getattr(entry.contents, field).extend([value] * count)
    return bytes(whole.SerializeToString())


def _native(draw: random.Random) -> bytes:
    """The task route's JSON in a BYTES element, torn or with noise in it."""
    at = draw.randrange(len(_NATIVE))
    text = draw.choice((_NATIVE, _NATIVE[:at], _NATIVE[:at] + _noise(draw, 5) + _NATIVE[at:], b"[" * at, b"{}"))
    whole = infer_message(draw.choice(_MODELS[:2]))
    entry = whole.inputs.add(name="request", datatype="BYTES", shape=[draw.choice((1, 1, 1, 0, 2))])
    entry.contents.bytes_contents.append(text)
    return bytes(whole.SerializeToString())


def _torn(draw: random.Random) -> bytes:
    """A good message cut, or with flipped bytes."""
    raw = bytearray(_good().SerializeToString())
    if draw.random() < 0.5:
        return bytes(raw[: draw.randrange(len(raw))])
    for _ in range(draw.randint(1, 5)):
        raw[draw.randrange(120 if draw.random() < 0.7 else len(raw))] = draw.randrange(256)
    return bytes(raw)


def _document(draw: random.Random) -> tuple[str, tuple[bytes, ...]]:
    name = draw.choice(DOCUMENTS)
    if draw.random() < 0.4:
        return SERVICE + name, (_noise(draw, 100),)
    request = getattr(service_pb2, f"{name}Request")()
    for field in ("name", "model_name", "repository_name"):
        if field in request.DESCRIPTOR.fields_by_name:
            setattr(request, field, draw.choice(_MODELS))
    if "version" in request.DESCRIPTOR.fields_by_name:
        request.version = draw.choice(_VERSIONS)
    return SERVICE + name, (request.SerializeToString(),)


def _nowhere(draw: random.Random) -> str:
    paths = ("/x/y", f"{SERVICE}Predict", f"{SERVICE}modelinfer", "/grpc.health.v1.Health/Nap", "/" + "a" * 900 + "/b")
    return draw.choice((*paths, "/grpc.health.v1.Health/Check"))


def _metadata(draw: random.Random) -> tuple[tuple[str, str | bytes], ...]:
    if draw.random() < 0.7:
        return ()
    text = "".join(chr(draw.randint(0x20, 0x7E)) for _ in range(draw.choice((0, 1, 20, 129, 2000))))
    keys = ("x-request-id", "x-priority", "x-model-version", "authorization", "x-api-key", "traceparent", "x-nobody")
    sent: list[tuple[str, str | bytes]] = [(draw.choice(keys), text) for _ in range(draw.randint(1, 4))]
    return (*sent, ("noise-bin", _noise(draw, 200)))
