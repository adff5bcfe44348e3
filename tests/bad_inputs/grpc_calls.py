"""Bad gRPC calls: messages that are none, tensors that contradict themselves, names nobody knows."""

from __future__ import annotations

import json
import struct
from typing import Any

import etth1
import numpy as np
from refusals import infer_message
from tritonclient.grpc import service_pb2

from .case import GrpcCase, message

Tensor = tuple[str, str, list[int], bytes]
_RAW, _CLOCK = etth1.history().tobytes(), etth1.clock().tobytes()
_BAD, _ABSENT = "INVALID_ARGUMENT", "NOT_FOUND"
_GARBAGE = {
    "all bits set": b"\xff" * 64,
    "text": b"forecast, please",
    "JSON": json.dumps(etth1.request()).encode(),
    "a length beyond the message": b"\x0a\xff\xff\xff\xff\x07card",
    "text that is not UTF-8": b"\x0a\x02\xff\xfe",
}


def _h(shape: list[int] | None = None, raw: bytes = _RAW, name: str = "history", kind: str = "FP32") -> Tensor:
    return name, kind, [1, 96, 7] if shape is None else shape, raw


def _t(shape: list[int] | None = None, raw: bytes = _CLOCK, name: str = "timestamps", kind: str = "INT64") -> Tensor:
    return name, kind, [1, 96] if shape is None else shape, raw


def _infer(name: str, code: str, field: str | None, *inputs: Tensor, status: str = _BAD, **sent: Any) -> GrpcCase:
    return GrpcCase(name, "ModelInfer", message(*inputs, **sent).SerializeToString(), status, code, field)


def _outputs(name: str, *outputs: str) -> GrpcCase:
    whole = message(_h())
    for output in outputs:
        whole.outputs.add(name=output)
    return GrpcCase(name, "ModelInfer", whole.SerializeToString(), _BAD, "output_unknown", "outputs")


def _typed(
    name: str, code: str, contents: str, values: list[Any], kind: str = "FP32", shape: list[int] | None = None
) -> GrpcCase:
    """`history` in typed contents, no raw ones."""
    whole = infer_message(etth1.ITRANSFORMER)
    entry = whole.inputs.add(name="history", datatype=kind, shape=[1, 96, 7] if shape is None else shape)
    getattr(entry.contents, contents).extend(values)
    return GrpcCase(name, "ModelInfer", whole.SerializeToString(), _BAD, code, "history")


def _native(name: str, code: str, field: str | None, *texts: bytes, shape: list[int] | None = None) -> GrpcCase:
    whole = infer_message(etth1.CARD)
    entry = whole.inputs.add(name="request", datatype="BYTES", shape=[len(texts)] if shape is None else shape)
    entry.contents.bytes_contents.extend(texts)
    return GrpcCase(name, "ModelInfer", whole.SerializeToString(), _BAD, code, field)


def _about(call: str, model: str, version: str = "") -> GrpcCase:
    request = getattr(service_pb2, f"{call}Request")(name=model, version=version)
    code, field = ("version_not_found", "version") if version else ("model_not_found", "model")
    name = f"{call} of {model[:20]!r} {version!r}"
    return GrpcCase(name, call, request.SerializeToString(), _ABSENT, code, field)


def _raw_contents(name: str, contents: list[bytes]) -> GrpcCase:
    whole = message(_h(), _t())
    del whole.raw_input_contents[:]
    whole.raw_input_contents.extend(contents)
    return GrpcCase(name, "ModelInfer", whole.SerializeToString(), _BAD, "tensor_size", "raw_input_contents")


def _unknown(path: str) -> GrpcCase:
    return GrpcCase(path[:60], path, b"", "UNIMPLEMENTED", "route_not_found")


def _spoiled(value: float, *place: int) -> bytes:
    array = etth1.history().copy()
    array[place] = value
    return array.tobytes()


_STREAMED = (
    _infer("no inputs in the stream", "invalid_request", "inputs"),
    _infer("a step short in the stream", "history_too_short", "history", _h([1, 95, 7], _RAW[28:])),
    _infer("an unknown model in the stream", "model_not_found", "model", _h(), model="nobody"),
    _infer("NaN in the stream", "value_not_finite", "history[0, 1, 1]", _h(raw=_spoiled(np.nan, 0, 1, 1))),
    _infer("too few bytes in the stream", "tensor_size", "history", _h(raw=_RAW[:-4])),
)

CASES = (
    # messages that are none
    *(GrpcCase(f"{name} for ModelInfer", "ModelInfer", raw, _BAD, "invalid_request") for name, raw in _GARBAGE.items()),
    *(GrpcCase(f"{name} in the stream", "ModelStreamInfer", raw, "OK", "invalid_request")
      for name, raw in _GARBAGE.items()),
    *(GrpcCase(f"garbage for {call}", call, _GARBAGE["all bits set"], _BAD, "invalid_request")
      for call in ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig",
                   "RepositoryIndex", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                   "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")),
    GrpcCase("a message over the limit", "ModelInfer", b"\x0a" * (16 * 2**20 + 1), "RESOURCE_EXHAUSTED",
             "payload_too_large"),
    GrpcCase("a large document request", "ServerLive", b"\x0a" * (16 * 2**20 + 1), "RESOURCE_EXHAUSTED",
             "payload_too_large"),
    # calls nobody knows
    *map(_unknown, ("/inference.GRPCInferenceService/Predict", "/inference.GRPCInferenceService/modelinfer",
                    "/inference.GRPCInferenceService/SystemSharedMemoryRegister", "/inference.GRPCInferenceService/",
                    "/tensorflow.serving.PredictionService/Predict", "/grpc.health.v1.Health/Nap", "/x/" + "y" * 2000)),
    # models and versions
    _infer("no model named", "invalid_request", "model", _h(), model=""),
    _infer("an unknown model", "model_not_found", "model", _h(), model="nobody", status=_ABSENT),
    _infer("a tag for a model", "model_not_found", "model", _h(), model="card-etth1:1", status=_ABSENT),
    _infer("a model name of a megabyte", "model_not_found", "model", _h(), model="m" * 2**20, status=_ABSENT),
    _infer("an unknown version", "version_not_found", "version", _h(), version="3", status=_ABSENT),
    *(_about(call, model) for call in ("ModelReady", "ModelMetadata", "ModelConfig") for model in ("", "nobody")),
    *(_about(call, etth1.CARD, "99") for call in ("ModelReady", "ModelMetadata", "ModelConfig")),
    # names
    _infer("no inputs", "invalid_request", "inputs"),
    _infer("a nameless input", "invalid_request", "inputs[0].name", _h(name="")),
    _infer("an unknown input", "tensor_unexpected", "inputs", _h(name="input")),
    _infer("an input twice", "tensor_unexpected", "inputs[1]", _h(), _h()),
    _infer("only the stamps", "tensor_missing", "history", _t()),
    _infer("stamps and a stranger", "tensor_unexpected", "inputs", _h(), _t(name="weather")),
    _outputs("an unknown output", "logits"),
    _outputs("a nameless output", ""),
    _outputs("a known and an unknown output", "forecast", "forecasts"),
    # data types
    *(_infer(f"data type {kind!r}", "tensor_dtype", "history", _h(kind=kind)) for kind in ("", "FLOAT", "BF16")),
    _infer("data type INT32", "tensor_dtype", "history", _h(kind="INT32")),
    _infer("stamps in FP64", "tensor_dtype", "timestamps", _h(), _t(kind="FP64")),
    # shapes
    _infer("shape -1", "tensor_shape", "history", _h([-1, 96, 7])),
    _infer("the smallest integer for a size", "tensor_shape", "history", _h([-(2**63), 96, 7])),
    _infer("the largest integer for a size", "tensor_shape", "history", _h([2**63 - 1, 96, 7])),
    _infer("no axes", "tensor_shape", "history", _h([], _RAW[:4])),
    _infer("nine axes", "tensor_shape", "history", _h([1] * 7 + [96, 7])),
    _infer("columns first", "tensor_shape", "history", _h([1, 7, 96])),
    _infer("no columns", "tensor_shape", "history", _h([1, 96, 0], b"")),
    _infer("stamps of two rows", "tensor_shape", "timestamps", _h(), _t([2, 96], _CLOCK * 2)),
    # sizes
    _infer("a byte short", "tensor_size", "history", _h(raw=_RAW[:-1])),
    _infer("a byte long", "tensor_size", "history", _h(raw=_RAW + b"\0")),
    _infer("a value short", "tensor_size", "history", _h(raw=_RAW[:-4])),
    _infer("twice the data", "tensor_size", "history", _h(raw=_RAW * 2)),
    _infer("stamps a byte short", "tensor_size", "timestamps", _h(), _t(raw=_CLOCK[:-1])),
    _raw_contents("one raw content for two inputs", [_RAW]),
    _raw_contents("three raw contents for two inputs", [_RAW, _CLOCK, b""]),
    _typed("typed contents a value short", "tensor_size", "fp32_contents", [0.5] * 671),
    _typed("no contents at all", "tensor_size", "fp32_contents", []),
    _typed("contents of another type", "tensor_size", "fp64_contents", [0.5] * 672),
    _typed("typed contents for FP16", "tensor_dtype", "fp32_contents", [0.5] * 672, "FP16"),
    _typed("INT8 beyond its range", "value_out_of_range", "int_contents", [200] * 672, "INT8"),
    _typed("UINT8 beyond its range", "value_out_of_range", "uint_contents", [256] * 672, "UINT8"),
    # rows, history, values
    _infer("no rows", "empty_batch", "history", _h([0, 96, 7], b"")),
    _infer("no steps", "history_too_short", "history", _h([1, 0, 7], b"")),
    _infer("rows over the limit", "too_many_rows", "history", _h([1025, 1, 7], b"\0" * 28700)),
    _infer("NaN", "value_not_finite", "history[0, 9, 6]", _h(raw=_spoiled(np.nan, 0, 9, 6))),
    _infer("infinity", "value_not_finite", "history[0, 0, 3]", _h(raw=_spoiled(np.inf, 0, 0, 3))),
    _infer("huge", "value_out_of_range", "history", _h(raw=_spoiled(-3e38, 0, 50, 3))),
    # the clock
    _infer("a stamp short", "length_mismatch", "timestamps", _h(), _t([1, 95], _CLOCK[8:])),
    _infer("stamps in nanoseconds", "timestamps_invalid", "timestamps[0][0]", _h(),
           _t(raw=(etth1.clock() * 10**9).tobytes())),
    _infer("stamps backwards", "timestamps_unsorted", "timestamps[0][1]", _h(),
           _t(raw=etth1.clock()[:, ::-1].tobytes())),
    _infer("stamps every half hour", "frequency_mismatch", "timestamps[0][1]", _h(),
           _t(raw=(etth1.clock()[:, :1] + 1800 * np.arange(96)).tobytes())),
    # the native request in a tensor
    _native("a native request that is no JSON", "invalid_json", None, b"{"),
    _native("a native request of two hundred levels too many", "invalid_json", None, b"[" * 5000),
    _native("a native request that is a list", "invalid_request", None, b"[]"),
    _native("no native request", "tensor_shape", "request", shape=[0]),
    _native("two native requests", "tensor_shape", "request", b"{}", b"{}"),
    _native("an unknown native field", "invalid_request", "top_k", json.dumps(etth1.request(top_k=3)).encode()),
    _native("a native batch without series", "empty_batch", "series", b'{"series": []}'),
    _infer("a native request of unannounced length", "tensor_size", "request",
           ("request", "BYTES", [1], b"{}")),
    _infer("a native request longer than the message", "tensor_size", "request",
           ("request", "BYTES", [1], struct.pack("<I", 2**31) + b"{}")),
    # the stream: a refused request is an answer and ends nothing
    *(GrpcCase(case.name, "ModelStreamInfer", case.message, "OK", case.code, case.field) for case in _STREAMED),
)  # fmt: skip
