"""Named tensors, and the Open Inference Protocol's names for their data types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[Any]
Tensors = dict[str, Tensor]

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BYTES": np.dtype(np.object_),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


SMALL = 8192  # elements whose squares are summed in no time and in one thread
_WIDE = (np.float32, np.float64)  # squares of numbers an answer may hold do not overflow


def is_finite(tensor: Tensor) -> bool:
    """Whether all elements are numbers; a finite sum of squares says so at once."""
    if tensor.dtype in _WIDE and tensor.size <= SMALL and math.isfinite(np.vdot(tensor, tensor)):
        return True
    return bool(np.isfinite(tensor).all())


def dtype_name(tensor: Tensor) -> str:
    """The protocol's name of a tensor's data type, e.g. `FP32`."""
    return NAMES[tensor.dtype]
