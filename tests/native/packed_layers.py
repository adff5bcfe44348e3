"""Graphs of one packed layer, and matrices that fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper

from models.packed.layout import Matrix, fits_bfloat16, pack24, pack_dense
from models.packed.library import DOMAIN, LIBRARY, VERSION


def weights(rows: int, columns: int, *, short: bool, seed: int = 0) -> Matrix:
    """Random float32 [rows, columns]; short: bfloat16 numbers."""
    numbers = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return (numbers.view(np.uint32) & 0xFFFF0000).view(np.float32) if short else numbers


def pruned(matrix: Matrix, seed: int = 0) -> Matrix:
    """Two of every four inputs set to zero, at random."""
    groups = matrix.copy().reshape(len(matrix), -1, 4)
    places = np.random.default_rng(seed).random(groups.shape).argsort(axis=2)
    np.put_along_axis(groups, places[:, :, :2], 0, axis=2)
    return groups.reshape(matrix.shape)


def inputs(rows: int, columns: int, seed: int = 1) -> Matrix:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def packed_layer(matrix: Matrix, orders: NDArray[np.int32] | None = None, parts: list[int] | None = None) -> Any:
    """Session of PackedLinear24, X -> X W^T; parts: outputs of each part; orders: int32 [parts, inputs]."""
    parts = parts or [len(matrix)]
    short = fits_bfloat16(matrix)
    pieces = np.split(matrix, np.cumsum(parts)[:-1])
    ordered = [piece if orders is None else piece[:, orders[n]] for n, piece in enumerate(pieces)]
    constants = {"records": np.concatenate([pack24(piece, short=short) for piece in ordered])}
    if orders is not None:
        constants["order"] = orders
    return session("PackedLinear24", constants, in_features=matrix.shape[1], rows=parts)


def dense_layer(matrix: Matrix) -> Any:
    """Session of Linear16, X -> X W^T."""
    sizes = {"in_features": matrix.shape[1], "out_features": len(matrix)}
    return session("Linear16", {"values": pack_dense(matrix)}, **sizes)


def embedding(matrix: Matrix) -> Any:
    """Session of Embedding16, ids -> rows of W."""
    sizes = {"in_features": matrix.shape[1], "out_features": len(matrix)}
    return session("Embedding16", {"values": pack_dense(matrix)}, reads=TensorProto.INT64, **sizes)


def session(
    op: str, constants: dict[str, Any], *, reads: int = TensorProto.FLOAT, threads: int = 1, **attributes: Any
) -> Any:
    """A session of one node that reads `x` and the constants and writes `y`."""
    node = helper.make_node(op, ["x", *constants], ["y"], domain=DOMAIN, **attributes)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", reads, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [_constant(name, numbers) for name, numbers in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, VERSION)], ir_version=10
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # refusals are raised; the log would only repeat them
    options.register_custom_ops_library(str(LIBRARY))
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(layer: Any, x: NDArray[Any]) -> Matrix:
    answer: Matrix = layer.run(None, {"x": x})[0]
    return answer


def _constant(name: str, numbers: NDArray[Any]) -> TensorProto:
    kind = TensorProto.BFLOAT16 if numbers.dtype == np.uint16 else helper.np_dtype_to_tensor_dtype(numbers.dtype)
    return TensorProto(name=name, dims=numbers.shape, data_type=kind, raw_data=numbers.tobytes())
