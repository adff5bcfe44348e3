"""The model every peer's program serves: one ONNX graph in onnxruntime, the session options Pressroom uses.

PEER_MODEL names a JSON file that describes it: `name`, `graph`, `inputs`, `outputs` (name, dtype, shape of one row),
`max_batch_rows` and `max_delay_ms`; PEER_PORT is where to listen. In the environment, because some peers start
processes of their own that load the model. Imports numpy and onnxruntime only: it runs in every peer's environment.

Where a peer has no tensor format of its own, a request is one row: the inputs' bytes behind each other, in the order of
the description; so is an answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

HOST = "127.0.0.1"
Array = np.ndarray[Any, np.dtype[Any]]


def port() -> int:
    """Where this server is to listen."""
    return int(os.environ["PEER_PORT"])


def description() -> dict[str, Any]:
    """What PEER_MODEL says."""
    told: dict[str, Any] = json.loads(Path(os.environ["PEER_MODEL"]).read_text())
    return told


@dataclass(frozen=True)
class Slot:
    """One tensor of a row: its name, numpy dtype, shape without the batch axis, and where its bytes are in the row."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Model:
    """A session with one thread that does not spin, and how rows become tensors."""

    def __init__(self) -> None:
        told = description()
        self.name: str = told["name"]
        self.inputs, self.outputs = _slots(told["inputs"]), _slots(told["outputs"])
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = ort.InferenceSession(told["graph"], options, providers=["CPUExecutionProvider"])
        self._names = [slot.name for slot in self.outputs]

    def run(self, tensors: Mapping[str, Array]) -> list[Array]:
        """One forward pass; the first axis of every tensor is the batch."""
        answers: list[Array] = self._session.run(self._names, dict(tensors))
        return answers

    def run_rows(self, rows: Sequence[bytes]) -> list[bytes]:
        """One forward pass over rows as bytes: an answer for each."""
        answers = self.run({slot.name: _joined(rows, slot) for slot in self.inputs})
        return [b"".join(answer[i].tobytes() for answer in answers) for i in range(len(rows))]

    def run_flat(self, rows: Array) -> Array:
        """The same over rows as numbers: float32 [B, values of a row] -> [B, values of an answer]."""
        size = rows.dtype.itemsize
        tensors = {
            slot.name: rows[:, slot.begin // size : slot.end // size].reshape(len(rows), *slot.shape)
            for slot in self.inputs
        }
        return np.concatenate([answer.reshape(len(rows), -1) for answer in self.run(tensors)], axis=1)


def _slots(told: Sequence[Mapping[str, Any]]) -> tuple[Slot, ...]:
    found, at = [], 0
    for one in told:
        end = at + prod(one["shape"]) * np.dtype(one["dtype"]).itemsize
        found.append(Slot(one["name"], one["dtype"], tuple(one["shape"]), at, end))
        at = end
    return tuple(found)


def _joined(rows: Sequence[bytes], slot: Slot) -> Array:
    whole = b"".join([memoryview(row)[slot.begin : slot.end] for row in rows])
    return np.frombuffer(whole, dtype=slot.dtype).reshape(len(rows), *slot.shape)
