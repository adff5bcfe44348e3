"""Bad inference requests of the Open Inference Protocol with their tensors in JSON."""

from __future__ import annotations

import json
from typing import Any

import etth1

from .case import INFER, INFER_CARD, HttpCase, clock, infer, nested, tensor

_DATA = etth1.history().ravel().tolist()


def _case(name: str, body: Any, code: str, field: str | None, path: str = INFER) -> HttpCase:
    return HttpCase(name, path, body, 422, code, field)


def _one(title: str, code: str, field: str | None = "history", /, **changed: Any) -> HttpCase:
    return _case(title, infer(tensor(**changed)), code, field)


def _stamps(title: str, code: str, field: str = "timestamps", /, **changed: Any) -> HttpCase:
    return _case(title, infer(tensor(), clock(**changed)), code, field)


def _native(name: str, code: str, field: str | None, data: list[Any], **changed: Any) -> HttpCase:
    entry = {"name": "request", "datatype": "BYTES", "shape": [len(data)], "data": data} | changed
    return _case(name, infer(entry), code, field)


CASES = (
    # the request
    _case("no inputs", {}, "invalid_request", "inputs"),
    _case("inputs null", {"inputs": None}, "invalid_request", "inputs"),
    _case("inputs empty", {"inputs": []}, "invalid_request", "inputs"),
    _case("inputs an object", {"inputs": {"history": _DATA}}, "invalid_request", "inputs"),
    _case("an input that is null", {"inputs": [None]}, "invalid_request", "inputs[0]"),
    _case("an input that is a list", {"inputs": [_DATA]}, "invalid_request", "inputs[0]"),
    _case("TensorFlow's instances", {"instances": [[1.0]]}, "invalid_request", "inputs"),
    _case("id a boolean", infer(tensor(), id=True), "invalid_request", "id"),
    _case("id an object", infer(tensor(), id={"order": 1}), "invalid_request", "id"),
    _case("parameters a list", infer(tensor(), parameters=[]), "invalid_request", "parameters"),
    _case("parameters of an input null", infer(tensor(parameters=None)), "invalid_request", "parameters"),
    _case("outputs an object", infer(tensor(), outputs={"name": "forecast"}), "invalid_request", "outputs"),
    _case("outputs of text", infer(tensor(), outputs=["forecast"]), "invalid_request", "outputs"),
    _case("an output without a name", infer(tensor(), outputs=[{}]), "invalid_request", "outputs"),
    _case("an unknown output", infer(tensor(), outputs=[{"name": "attention"}]), "output_unknown", "outputs"),
    _case("an output in capitals", infer(tensor(), outputs=[{"name": "FORECAST"}]), "output_unknown", "outputs"),
    _case("an empty output name", infer(tensor(), outputs=[{"name": ""}]), "output_unknown", "outputs"),
    _case("one output known, one not", infer(tensor(), outputs=[{"name": "forecast"}, {"name": "std"}]),
          "output_unknown", "outputs"),
    # names
    _one("no name", "invalid_request", "inputs[0].name", name=""),
    _one("a name that is null", "invalid_request", "inputs[0].name", name=None),
    _one("an unknown input", "tensor_unexpected", "inputs", name="x"),
    _one("Triton's INPUT0", "tensor_unexpected", "inputs", name="INPUT0"),
    _case("an input twice", infer(tensor(), tensor()), "tensor_unexpected", "inputs[1]"),
    _case("only the stamps", infer(clock()), "tensor_missing", "history"),
    _case("stamps to a model without a calendar", infer(tensor(), clock(name="marks")), "tensor_unexpected", "inputs",
          INFER_CARD),
    # data types
    *(_one(f"datatype {kind}", "tensor_dtype", datatype=kind) for kind in ("FP64", "FP16")),
    *(_one(f"datatype {kind!r}", "tensor_dtype", datatype=kind)
      for kind in ("BF16", "fp32", "float32", "", None, 32, ["FP32"])),
    _one("datatype BYTES with numbers", "tensor_dtype", datatype="BYTES"),
    _stamps("stamps in INT32", "tensor_dtype", datatype="INT32"),
    _stamps("stamps in UINT64", "tensor_dtype", datatype="UINT64"),
    _stamps("stamps in BYTES", "tensor_dtype", datatype="BYTES", data=etth1.stamps()),
    # shapes
    _one("no shape", "tensor_shape", shape=None),
    _one("a shape in text", "tensor_shape", shape="1x96x7"),
    _one("a shape of floats", "tensor_shape", shape=[1.0, 96.0, 7.0]),
    _one("a negative batch", "tensor_shape", shape=[-1, 96, 7]),
    _one("a negative everything", "tensor_shape", shape=[-1, -96, -7]),
    _one("a shape of a thousand axes", "tensor_shape", shape=[1] * 1000),
    _one("a shape beyond 64 bits", "tensor_shape", shape=[10**18, 96, 7]),
    _one("no axes", "tensor_shape", shape=[], data=[1.0]),
    _one("no batch axis", "tensor_shape", shape=[96, 7]),
    _one("columns first", "tensor_shape", shape=[1, 7, 96]),
    _one("a flat shape", "tensor_shape", shape=[672]),
    _one("no columns", "tensor_shape", shape=[1, 96, 0], data=[]),
    _stamps("stamps without a batch axis", "tensor_shape", shape=[96]),
    _stamps("stamps of two rows", "tensor_shape", shape=[2, 96], data=etth1.epochs() * 2),
    # sizes
    _one("no data", "invalid_request", data=None),
    _one("data in text", "invalid_request", data="1.0 2.0"),
    _one("data in base64", "invalid_request", data="AACAPwAAAEA="),
    _one("data an object", "invalid_request", data={"0": 1.0}),
    _one("no values", "tensor_size", data=[]),
    _one("a value short", "tensor_size", data=_DATA[1:]),
    _one("a value long", "tensor_size", data=[*_DATA, 1.0]),
    _one("rows of unequal length", "tensor_size", data=[[1.0] * 7] * 95 + [[1.0] * 6]),
    _one("numbers beside lists", "tensor_size", data=[1.0, [2.0], [[3.0]]]),
    _one("a batch that says two", "tensor_size", shape=[2, 96, 7]),
    # values
    _one("NaN in JSON", "value_not_finite", "history[0, 0, 0]", data=[float("nan"), *_DATA[1:]]),
    _one("infinity in JSON", "value_not_finite", "history[0, 95, 6]", data=[*_DATA[:-1], float("inf")]),
    _one("beyond float32", "value_not_finite", "history[0, 1, 0]", data=[*_DATA[:7], 3.5e38, *_DATA[8:]]),
    _one("null among numbers", "value_not_finite", data=[None, *_DATA[1:]]),
    _one("true and false", "value_not_numeric", data=[True, False] * 336),
    _one("numbers in quotes", "value_not_numeric", data=[str(v) for v in _DATA]),
    _one("one text among numbers", "value_not_numeric", data=["NaN", *_DATA[1:]]),
    _one("objects for numbers", "value_not_numeric", data=[{}] * 672),
    _one("near the end of float32", "value_out_of_range", data=[3.3e38, *_DATA[1:]]),
    _one("lists nested a hundred deep", "value_not_numeric", data=nested(100)),
    _stamps("stamps with a point", "value_not_numeric", data=[h + 0.5 for h in etth1.epochs()]),
    _stamps("a stamp that is null", "value_not_finite", data=[None, *etth1.epochs()[1:]]),
    # rows and history
    _one("no rows", "empty_batch", shape=[0, 96, 7], data=[]),
    _one("no steps", "history_too_short", shape=[1, 0, 7], data=[]),
    _one("a step too few", "history_too_short", shape=[1, 95, 7], data=_DATA[7:]),
    _one("rows over the limit", "too_many_rows", shape=[1025, 1, 7], data=[0.0] * 7175),
    # the clock
    _stamps("a stamp short", "length_mismatch", shape=[1, 95], data=etth1.epochs()[1:]),
    _stamps("stamps in milliseconds", "timestamps_invalid", "timestamps[0][0]",
            data=[h * 1000 for h in etth1.epochs()]),
    _stamps("stamps all zero", "timestamps_duplicate", "timestamps[0][1]", data=[0] * 96),
    _stamps("stamps backwards", "timestamps_unsorted", "timestamps[0][1]", data=etth1.epochs()[::-1]),
    # the native request in a tensor
    HttpCase("a native request that is no JSON", INFER,
             infer({"name": "request", "datatype": "BYTES", "shape": [1], "data": ["forecast"]}), 400, "invalid_json"),
    _native("a native request that is a list", "invalid_request", None, ["[]"]),
    _native("two native requests", "tensor_shape", "request", ["{}", "{}"]),
    _native("a native request as a number", "tensor_dtype", "request", [1]),
    _native("a native request as FP32", "tensor_shape", "request", [1.0], datatype="FP32"),
    _native("an empty native request", "invalid_request", "series", ["{}"]),
    _native("a native horizon too long", "horizon_too_long", "horizon",
            [json.dumps(etth1.request(horizon=500))]),
)  # fmt: skip
