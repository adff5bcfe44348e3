"""Small ONNX graphs with closed-form answers, and some that nobody should serve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, DOUBLE, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL

Sizes = Sequence[int | str | None]
Value = tuple[str, int, Sizes]
AFFINE = np.array([[1.0, -2.0], [0.5, 3.0], [4.0, 0.25]], dtype=np.float32)  # y = x @ AFFINE + 1


def graph(nodes: Sequence[Any], inputs: Sequence[Value], outputs: Sequence[Value], **weights: Any) -> onnx.ModelProto:
    """A model of opset 20; weights are arrays by name."""
    made = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def affine(batch: str | int = "rows") -> onnx.ModelProto:
    """x FP32 [batch, 3] -> y = x @ AFFINE + 1, FP32 [batch, 2]."""
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Add", ["product", "one"], ["y"]),
    ]
    return graph(
        nodes, [("x", FLOAT, [batch, 3])], [("y", FLOAT, [batch, 2])], weight=AFFINE, one=np.ones(2, np.float32)
    )


def pick() -> onnx.ModelProto:
    """table FP64 [batch, n], index INT64 [batch, 1] -> picked FP64 [batch, 1], large BOOL [batch, 1] (picked > 0.5)."""
    nodes = [
        helper.make_node("GatherElements", ["table", "index"], ["picked"], axis=1),
        helper.make_node("Greater", ["picked", "half"], ["large"]),
    ]
    inputs: list[Value] = [("table", DOUBLE, ["batch", "n"]), ("index", INT64, ["batch", 1])]
    outputs: list[Value] = [("picked", DOUBLE, ["batch", 1]), ("large", BOOL, ["batch", 1])]
    return graph(nodes, inputs, outputs, half=np.float64(0.5))


def mixed_rows() -> onnx.ModelProto:
    """x FP32 [batch, 3] -> y = x + the mean row of the whole batch: no row stands for itself."""
    nodes = [
        helper.make_node("ReduceMean", ["x", "rows"], ["mean"], keepdims=1),
        helper.make_node("Add", ["x", "mean"], ["y"]),
    ]
    return graph(nodes, [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["batch", 3])], rows=np.array([0], np.int64))


def one_node(operator: str, *, domain: str = "", **attributes: Any) -> onnx.ModelProto:
    """x FP32 [batch, 3] -> y FP32 [batch, 3] by one operator."""
    node = helper.make_node(operator, ["x"], ["y"], domain=domain, **attributes)
    model = graph([node], [("x", FLOAT, ["batch", 3])], [("y", FLOAT, ["batch", 3])])
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def write(model: onnx.ModelProto, path: Path) -> Path:
    """The model as a file."""
    path.write_bytes(model.SerializeToString())
    return path
