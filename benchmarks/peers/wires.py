"""The ways a row is sent and its answer read: every server's own fastest, and what it speaks besides.

bytes       POST /inference, the row's tensors as they lie in memory
row-json    POST /inference {"row": [...]}, all numbers in one list
rows-json   POST /inference {"rows": [[...]]}, a batch of one
oip-json    Open Inference Protocol over REST, numbers in JSON
oip-binary  the same, tensors as raw bytes behind the JSON header
oip-grpc    the same over gRPC, raw contents
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from google.protobuf.message import DecodeError

from benchmarks.load import Prepare, Prepared, Shot
from benchmarks.peers.subjects import Array, Rows, Subject
from benchmarks.wires import post
from pressroom.bench_http import Outcome
from pressroom.bench_oip import JSON_TYPE, as_binary, as_json, as_message, read_answer, read_message
from services.core.oip.messages import ModelInferResponse

PATH = "/inference"
RTOL, ATOL = 1e-3, 1e-4  # of answers; a neighbour's row is off by tenths
_BYTES = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True)
class Wire:
    """build: model's name, one row of every input -> request; read: answer -> all its numbers."""

    key: str
    title: str
    grpc: bool
    build: Callable[[str, Rows], bytes]
    read: Callable[[Outcome], Array]


def _numbers(row: Rows) -> Array:
    return np.concatenate([tensor.ravel() for tensor in row.values()])


def _build_bytes(model: str, row: Rows) -> bytes:
    return post(PATH, _numbers(row).tobytes(), _BYTES)


def _read_bytes(answer: Outcome) -> Array:
    return np.frombuffer(answer.body, dtype=np.float32)


def _build_row(model: str, row: Rows) -> bytes:
    return post(PATH, _dumps({"row": _numbers(row)}), JSON_TYPE)


def _read_row(answer: Outcome) -> Array:
    return np.array(orjson.loads(answer.body)["row"], dtype=np.float32)


def _build_rows(model: str, row: Rows) -> bytes:
    return post(PATH, _dumps({"rows": _numbers(row)[np.newaxis]}), JSON_TYPE)


def _read_rows(answer: Outcome) -> Array:
    return np.array(orjson.loads(answer.body)[0], dtype=np.float32)


def _build_oip_json(model: str, row: Rows) -> bytes:
    return post(_infer(model), *as_json(_batch(row)))


def _build_oip_binary(model: str, row: Rows) -> bytes:
    return post(_infer(model), *as_binary(_batch(row)))


def _read_oip(answer: Outcome) -> Array:
    return _numbers(read_answer(answer.head, answer.body))


def _build_oip_grpc(model: str, row: Rows) -> bytes:
    return as_message(model, "", _batch(row))


def _read_oip_grpc(answer: Outcome) -> Array:
    response = ModelInferResponse.FromString(answer.body)
    if response.raw_output_contents:
        return _numbers(read_message(answer.body))
    return np.concatenate([np.array(one.contents.fp32_contents) for one in response.outputs])  # as MLServer may answer


def _infer(model: str) -> str:
    return f"/v2/models/{model}/infer"


def _batch(row: Rows) -> Rows:
    return {name: tensor[np.newaxis] for name, tensor in row.items()}


def _dumps(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


WIRES = {
    wire.key: wire
    for wire in (
        Wire("bytes", "bytes", False, _build_bytes, _read_bytes),
        Wire("row-json", "JSON", False, _build_row, _read_row),
        Wire("rows-json", "JSON", False, _build_rows, _read_rows),
        Wire("oip-json", "REST JSON", False, _build_oip_json, _read_oip),
        Wire("oip-binary", "REST binary", False, _build_oip_binary, _read_oip),
        Wire("oip-grpc", "gRPC", True, _build_oip_grpc, _read_oip_grpc),
    )
}


@dataclass(frozen=True)
class Requests:
    """Makes the requests of shots at these subjects, by name; travels to the load generator's process."""

    subjects: dict[str, Rows]

    def __call__(self) -> Prepare:
        return self._prepare

    def _prepare(self, shot: Shot) -> Prepared:
        wire, rows = WIRES[shot.wire], self.subjects[shot.model]
        count = len(next(iter(rows.values())))
        requests = [wire.build(shot.model, {name: rows[name][i] for name in rows}) for i in range(count)]
        return Prepared(requests, wire.grpc)


def is_right(wire: Wire, answer: Outcome, subject: Subject, index: int) -> bool:
    """Whether an answer is what the graph gives in this process, to float32's precision at another batch size."""
    try:
        found = wire.read(answer)
    except (ValueError, KeyError, IndexError, TypeError, DecodeError):
        return False
    expected = subject.answer(index)
    return found.shape == expected.shape and bool(np.allclose(found, expected, rtol=RTOL, atol=ATOL))
