"""Weights of an ONNX graph in a file beside it: read one at a time, written one after the other.

A model larger than memory passes through; at most one matrix and its new form are held. Tensors start at multiples of
ALIGNMENT, so that a runtime may map them instead of reading them.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

ALIGNMENT = 4096  # bytes; the page that mapping starts at


class Weights:
    """The initializers of a graph whose file lies in `folder`."""

    def __init__(self, folder: Path, graph: onnx.GraphProto) -> None:
        self._folder = folder
        self._graph = graph
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}

    def read(self, name: str) -> NDArray[Any]:
        """The numbers, mapped from the file where they lie there."""
        tensor = self.tensors[name]
        if tensor.data_location != TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor)
        place = {entry.key: entry.value for entry in tensor.external_data}
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        offset = int(place.get("offset", 0))
        return np.memmap(self._folder / place["location"], kind, "r", offset, tuple(tensor.dims))

    def move_used(self, file: WeightFile) -> None:
        """Drop initializers that no node reads; copy the others into `file`, but for those that lie there already."""
        used = {name for node in self._graph.node for name in node.input}
        for name, tensor in self.tensors.items():
            if name not in used:
                self._graph.initializer.remove(tensor)
            elif tensor.data_location == TensorProto.EXTERNAL:
                file.place(tensor, self.read(name))


class WeightFile:
    """A file of tensors being written; use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> WeightFile:
        self._stream = self._path.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        if fault is not None:
            self._path.unlink(missing_ok=True)

    def add(self, name: str, numbers: NDArray[Any], kind: int) -> TensorProto:
        """A tensor of the file. kind: TensorProto's type, which for bfloat16 differs from the array's (uint16)."""
        tensor = TensorProto(name=name, dims=numbers.shape, data_type=kind)
        self.place(tensor, numbers)
        return tensor

    def place(self, tensor: TensorProto, numbers: NDArray[Any]) -> None:
        """Write the numbers and say in `tensor` where."""
        self._stream.write(bytes(-self._stream.tell() % ALIGNMENT))
        offset = self._stream.tell()
        np.ascontiguousarray(numbers).tofile(self._stream)
        tensor.ClearField("raw_data")
        tensor.ClearField("external_data")
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": self._path.name, "offset": str(offset), "length": str(numbers.nbytes)}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=value)
