"""What once was a fault of ours (500 or INTERNAL) or cost more than its request was worth: found by probing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import etth1
from refusals import infer_message

from .case import FORECAST, INFER, LENGTH, GrpcCase, HttpCase, but, edited, infer, nested, tensor

_GOOD = etth1.request()
_HUGE = [0] + [2**31 - 1] * 5  # no elements, yet numpy cannot shape it
_END = datetime(9999, 12, 31, 23, tzinfo=UTC)
_LAST = [(_END - timedelta(hours=95 - i)).isoformat() for i in range(96)]
_STAMPS = "series[0].timestamps"


def _with_nan(document: Any, before: str, after: str) -> bytes:
    """JSON with NaN in it, which Python's own reader takes over, and one text replaced."""
    return json.dumps(but(document, "series.0.values.HUFL.0", float("nan"))).replace(before, after, 1).encode()


def _ends_late(name: str, **fields: Any) -> HttpCase:
    body = etth1.request(etth1.series(**fields))
    return HttpCase(name, FORECAST, body, 422, "timestamps_invalid", _STAMPS)


def _tensor(name: str, code: str, field: str = "history", **changed: Any) -> HttpCase:
    return HttpCase(name, INFER, infer(tensor(**changed)), 422, code, field)


_HUFL = json.dumps(etth1.values()[1, 0].item())
_TIMEOUT = "X-Request-Timeout-Ms"

CASES = (
    HttpCase("half a character beside NaN", FORECAST, _with_nan(_GOOD, "HULL", "\\ud800"), 400, "invalid_json"),
    HttpCase("half a character in a tensor beside NaN", INFER,
             b'{"x":NaN,"inputs":[{"name":"request","datatype":"BYTES","shape":[1],"data":["\\ud800"]}]}', 400,
             "invalid_json"),
    HttpCase("an endless integer beside NaN", FORECAST, _with_nan(_GOOD, _HUFL, "1" + "0" * 400), 400, "invalid_json"),
    HttpCase("three hundred levels beside NaN", FORECAST, b'{"a":NaN,"b":' + b"[" * 300 + b"]" * 300 + b"}", 400,
             "invalid_json"),
    _tensor("no elements in a shape beyond memory", "tensor_shape", shape=_HUGE, data=[]),
    HttpCase("a deadline of leading zeros and many digits", FORECAST, _GOOD, 422, "invalid_request", _TIMEOUT,
             headers={_TIMEOUT: "000000000001" + "9" * 400}),
    HttpCase("a deadline of five thousand digits", FORECAST, _GOOD, 422, "invalid_request", _TIMEOUT,
             headers={_TIMEOUT: "000000000001" + "9" * 5000}),
    HttpCase("a header length of five thousand digits", INFER, infer(tensor()), 400, "invalid_json", LENGTH,
             headers={LENGTH: "000000000001" + "9" * 5000}),
    HttpCase("a header length of leading zeros", INFER, infer(tensor()), 400, "invalid_json", LENGTH,
             headers={LENGTH: "000000000001" + "9" * 50}),
    _ends_late("a forecast beyond the year 9999", timestamps=_LAST),
    _ends_late("the same without offsets", timestamps=[stamp[:19] for stamp in _LAST]),
    _ends_late("the same by its start", timestamps=None, start="9999-12-31T20:00:00+00:00", freq="h"),
    _ends_late("the same in epoch seconds", timestamps=None, start=253402300799, freq="h"),
    HttpCase("an id nested nine hundred deep", INFER, infer(tensor(), id=nested(900)), 422, "invalid_request", "id"),
    # numpy would give each of the twenty thousand elements the room of the longest: 1.6 GB for a request of 0.1 MB
    _tensor("one long text among many", "value_not_numeric", data=["x" * 20_000] + ["y"] * 20_000),
    _tensor("one long text deep inside", "value_not_numeric", data=[[[[["x" * 20_000] + ["y"] * 20_000]]]]),
    HttpCase("a column name of a megabyte", FORECAST,
             edited(_GOOD, "series.0.values", lambda v: {**v, "x" * 2**20: []}), 422, "columns_unexpected",
             "series[0].values"),
)  # fmt: skip


def _grpc(name: str, code: str, field: str, shape: list[int], called: str = "history") -> GrpcCase:
    message = infer_message(etth1.ITRANSFORMER)
    message.inputs.add(name=called, datatype="FP32", shape=shape)
    return GrpcCase(name, "ModelInfer", message.SerializeToString(), "INVALID_ARGUMENT", code, field)


def _native_with_long_field() -> bytes:
    """An unknown field with a long name, whose refusal has to fit into gRPC's metadata."""
    message = infer_message(etth1.CARD)
    text = json.dumps(edited(_GOOD, "series.0", lambda entry: {**entry, "x" * 20_000: 1})).encode()
    message.inputs.add(name="request", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text)
    return bytes(message.SerializeToString())


GRPC_CASES = (
    _grpc("a shape whose product wraps to zero", "tensor_shape", "history", [2**30, 2**30, 16]),
    _grpc("no elements in a shape beyond memory", "tensor_shape", "history", _HUGE),
    GrpcCase("a field name too long for metadata", "ModelInfer", _native_with_long_field(), "INVALID_ARGUMENT",
             "invalid_request", f"series[0].{'x' * 487}..."),
)  # fmt: skip
