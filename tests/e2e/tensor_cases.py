"""Bad inference requests of the Open Inference Protocol, and the refusal each must get over REST and gRPC.

A case is a list of inputs, independent of the wire: JSON, raw bytes behind a JSON header, and gRPC carry the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import etth1
import numpy as np
from refusals import infer_message


@dataclass(frozen=True)
class Input:
    """One input as it is declared, and the bytes that travel with it (which may contradict the declaration)."""

    name: str
    datatype: str
    shape: list[int]
    array: np.ndarray

    @property
    def raw(self) -> bytes:
        return self.array.tobytes()


def history(array: np.ndarray | None = None, **declared: Any) -> Input:
    sent = etth1.history() if array is None else array
    return Input(**{"name": "history", "datatype": "FP32", "shape": list(sent.shape), "array": sent, **declared})


def clock(array: np.ndarray | None = None, **declared: Any) -> Input:
    sent = etth1.clock() if array is None else array
    return Input(**{"name": "timestamps", "datatype": "INT64", "shape": list(sent.shape), "array": sent, **declared})


def as_json(inputs: list[Input], outputs: list[str] | None = None) -> dict[str, Any]:
    """The REST body with data in JSON."""
    entries = [
        {"name": i.name, "datatype": i.datatype, "shape": i.shape, "data": i.array.ravel().tolist()} for i in inputs
    ]
    return {"inputs": entries} | ({"outputs": [{"name": name} for name in outputs]} if outputs else {})


def as_binary(inputs: list[Input], outputs: list[str] | None = None) -> tuple[dict[str, Any], bytes]:
    """The REST body's JSON header, and the raw bytes behind it."""
    document = as_json(inputs, outputs)
    for entry, one in zip(document["inputs"], inputs, strict=True):
        del entry["data"]
        entry["parameters"] = {"binary_data_size": len(one.raw)}
    return document, b"".join(one.raw for one in inputs)


def as_message(model: str, inputs: list[Input], outputs: list[str] | None = None) -> Any:
    """The gRPC request with raw contents."""
    message = infer_message(model)
    for one in inputs:
        message.inputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
        message.raw_input_contents.append(one.raw)
    for name in outputs or ():
        message.outputs.add(name=name)
    return message


@dataclass(frozen=True)
class Case:
    """name; code and field of the refusal (422 / INVALID_ARGUMENT); inputs; outputs asked for."""

    name: str
    code: str
    field: str | None
    inputs: list[Input]
    outputs: list[str] = field(default_factory=list)


def _spoiled(value: float, *place: int) -> np.ndarray:
    array = etth1.history(etth1.START, 300)
    array[place] = value
    return array


def _swapped(first: int, second: int) -> np.ndarray:
    array = etth1.clock()
    array[0, [first, second]] = array[0, [second, first]]
    return array


def _shifted(index: int, seconds: int) -> np.ndarray:
    """Every stamp from `index` on moved."""
    array = etth1.clock()
    array[0, index:] += seconds
    return array


_FLOAT64 = etth1.history().astype(np.float64)
_INT32 = etth1.clock().astype(np.int32)
_MILLISECONDS = etth1.clock() * 1000

CASES = (
    # names
    Case("no history", "tensor_missing", "history", [clock()]),
    Case("an unknown input", "tensor_unexpected", "inputs", [history(), history(name="weather")]),
    Case("an input twice", "tensor_unexpected", "inputs[1]", [history(), history()]),
    Case("an unknown output", "output_unknown", "outputs", [history()], ["forecast", "attention"]),
    Case("a nameless input", "invalid_request", "inputs[0].name", [history(name="")]),
    Case("no inputs", "invalid_request", "inputs", []),
    # data types
    Case("FP64", "tensor_dtype", "history", [history(_FLOAT64, datatype="FP64")]),
    Case("INT32 stamps", "tensor_dtype", "timestamps", [history(), clock(_INT32, datatype="INT32")]),
    Case("an unknown data type", "tensor_dtype", "history", [history(datatype="FLOAT")]),
    Case("no data type", "tensor_dtype", "history", [history(datatype="")]),
    # shapes
    Case("no batch axis", "tensor_shape", "history", [history(etth1.history()[0])]),
    Case("an axis too many", "tensor_shape", "history", [history(etth1.history()[None])]),
    Case("a column too few", "tensor_shape", "history", [history(etth1.history()[:, :, :6].copy())]),
    Case("a column too many", "tensor_shape", "history", [history(np.zeros((1, 96, 8), np.float32))]),
    Case("a negative size", "tensor_shape", "history", [history(shape=[-1, 96, 7])]),
    Case("sizes beyond reason", "tensor_shape", "history", [history(shape=[2**40, 96, 7])]),
    Case("nine axes", "tensor_shape", "history", [history(shape=[1] * 7 + [96, 7])]),
    Case("rows that differ", "tensor_shape", "timestamps", [history(), clock(etth1.clock(300, 400))]),
    Case("no rows", "empty_batch", "history", [history(np.zeros((0, 96, 7), np.float32))]),
    # sizes
    Case("less data than the shape", "tensor_size", "history", [history(etth1.history(length=95), shape=[1, 96, 7])]),
    Case("more data than the shape", "tensor_size", "history", [history(etth1.history(300, 400), shape=[1, 96, 7])]),
    # values
    Case("too short", "history_too_short", "history", [history(etth1.history(length=95))]),
    Case("no time steps", "history_too_short", "history", [history(np.zeros((1, 0, 7), np.float32))]),
    Case("too large", "value_out_of_range", "history", [history(_spoiled(3e38, 0, 5, 2))]),
    # stamps
    Case("stamps of another length", "length_mismatch", "timestamps", [history(), clock(etth1.clock(length=95))]),
    Case("stamps swapped", "timestamps_unsorted", "timestamps[0][11]", [history(), clock(_swapped(10, 11))]),
    Case("a stamp repeated", "timestamps_duplicate", "timestamps[0][20]", [history(), clock(_shifted(20, -3600))]),
    Case("an hour missing", "timestamps_gap", "timestamps[0][30]", [history(), clock(_shifted(30, 3600))]),
    Case("half an hour", "frequency_mismatch", "timestamps[0][1]", [history(), clock(etth1.clock() // 2)]),
    Case("epoch milliseconds", "timestamps_invalid", "timestamps[0][0]", [history(), clock(_MILLISECONDS)]),
    Case("stamps before year 1", "timestamps_invalid", "timestamps[0][0]", [history(), clock(etth1.clock() - 10**12)]),
    Case("largest integers", "timestamps_invalid", "timestamps[0][0]", [history(), clock(np.full((1, 96), 2**63 - 1))]),
)  # fmt: skip

# JSON cannot say these.
RAW_CASES = (
    Case("NaN", "value_not_finite", "history[0, 5, 2]", [history(_spoiled(np.nan, 0, 5, 2))]),
    Case("infinity", "value_not_finite", "history[1, 95, 6]", [history(_spoiled(np.inf, 1, 95, 6))]),
)
