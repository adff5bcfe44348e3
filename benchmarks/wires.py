"""The ways to ask for one forecast: prepared request bytes, and how to read the answer.

Requests are prepared once, so that the load generator only copies bytes. Every request asks for one window.

    json         POST /v1/forecast, named columns and ISO 8601 timestamps in JSON
    oip-json     Open Inference Protocol over REST, tensors as JSON numbers
    oip-binary   the same, tensors as raw bytes behind the JSON header
    grpc         Open Inference Protocol over gRPC, raw contents
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from benchmarks.windows import Windows
from pressroom.bench_http import Outcome, request
from pressroom.bench_oip import JSON_TYPE, as_binary, as_json, as_message, read_answer, read_message

Forecast = npt.NDArray[np.floating[Any]]
post = partial(request, "bench")


@dataclass(frozen=True)
class Wire:
    """One way to ask.

    build  model name, windows, index of one -> request: an HTTP/1.1 request with head, or a gRPC message
    read   answer -> forecast [H, C] in raw units
    """

    key: str
    title: str
    grpc: bool
    build: Callable[[str, Windows, int], bytes]
    read: Callable[[Outcome], Forecast]


def _build_json(model: str, windows: Windows, index: int) -> bytes:
    stamps = np.datetime_as_string(windows.stamps[index].astype("M8[s]")).tolist()
    values = dict(zip(windows.columns, windows.history[index].T.tolist(), strict=True))
    document = {"model": model, "series": [{"timestamps": stamps, "values": values}]}
    return post("/v1/forecast", orjson.dumps(document), JSON_TYPE)


def _read_json(answer: Outcome) -> Forecast:
    values = orjson.loads(answer.body)["series"][0]["values"]
    return np.array(list(values.values())).T


def _tensors(windows: Windows, index: int) -> dict[str, npt.NDArray[Any]]:
    history = np.ascontiguousarray(windows.history[index : index + 1], dtype=np.float32)
    return {"history": history, "timestamps": np.ascontiguousarray(windows.stamps[index : index + 1])}


def _build_oip_json(model: str, windows: Windows, index: int) -> bytes:
    return post(f"/v2/models/{model}/infer", *as_json(_tensors(windows, index)))


def _build_oip_binary(model: str, windows: Windows, index: int) -> bytes:
    return post(f"/v2/models/{model}/infer", *as_binary(_tensors(windows, index)))


def _read_oip(answer: Outcome) -> Forecast:
    return next(iter(read_answer(answer.head, answer.body).values()))[0]


def _build_grpc(model: str, windows: Windows, index: int) -> bytes:
    return as_message(model, "", _tensors(windows, index))


def _read_grpc(answer: Outcome) -> Forecast:
    return next(iter(read_message(answer.body).values()))[0]


WIRES = {
    wire.key: wire
    for wire in (
        Wire("json", "native JSON", False, _build_json, _read_json),
        Wire("oip-json", "OIP REST JSON", False, _build_oip_json, _read_oip),
        Wire("oip-binary", "OIP REST binary", False, _build_oip_binary, _read_oip),
        Wire("grpc", "OIP gRPC", True, _build_grpc, _read_grpc),
    )
}
