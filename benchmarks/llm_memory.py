"""The memory-bandwidth roofline: how fast one thread reads, and how many bytes of weights a token needs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

MIB = 2**20
_SIZE = 256 * MIB  # far beyond any cache
_LOOKUPS = {"Gather", "GatherBlockQuantized", "GroupQueryAttention"}  # take single rows of their tables


class Reader:
    """A block of memory, read by two of numpy's fastest kernels; the faster one counts."""

    def __init__(self) -> None:
        self._block = np.ones(_SIZE // 4, np.float32)

    def bytes_per_second(self) -> float:
        """Of this thread's CPU time, median of five sweeps: neighbours slow them down as all that is measured."""
        block, half = self._block, len(self._block) // 2
        sweeps = (block.max, lambda: np.dot(block[:half], block[half:]))
        return max(_SIZE / median(_cpu_seconds(sweep) for _ in range(5)) for sweep in sweeps)


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def weight_bytes(graph: Path) -> int:
    """Bytes of the weights a graph reads for one token: all but tables of which it only looks rows up."""
    import onnx

    network = onnx.load(graph, load_external_data=False).graph
    read = {name for node in network.node if node.op_type not in _LOOKUPS for name in node.input}
    return sum(_bytes(tensor) for tensor in network.initializer if tensor.name in read)


def _bytes(tensor: object) -> int:
    from onnx import TensorProto, helper

    assert isinstance(tensor, TensorProto)
    count = math.prod(tensor.dims)
    if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4):
        return (count + 1) // 2
    return int(count * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
