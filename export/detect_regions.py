"""RoIAlign inside graphs, and the region head of a CLIP tower, which has no weights.

    regions   dense [B, E, h, w], boxes [R, 4] in cells, owner [R] -> features [R, E], unit norm

RoiAlign (opset 16, half_pixel, adaptive sampling) agrees bit for bit with the kernel the papers' programs run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper
from torch import Tensor

from export.onnx_graph import OPSET


def write_regions(path: Path) -> None:
    """The region head; it has no weights."""
    dense = helper.make_tensor_value_info("dense", TensorProto.FLOAT, ["batch", "embedding", "rows", "columns"])
    boxes = helper.make_tensor_value_info("boxes", TensorProto.FLOAT, ["regions", 4])
    owner = helper.make_tensor_value_info("owner", TensorProto.INT64, ["regions"])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["regions", "embedding"])
    aligned: dict[str, Any] = {"mode": "avg", "coordinate_transformation_mode": "half_pixel", "sampling_ratio": 0}
    nodes = [
        helper.make_node("RoiAlign", ["dense", "boxes", "owner"], ["cut"], output_height=1, output_width=1, **aligned),
        helper.make_node("Flatten", ["cut"], ["mean"], axis=1),
        helper.make_node("ReduceL2", ["mean", "last"], ["norm"], keepdims=1),
        helper.make_node("Max", ["norm", "tiny"], ["divisor"]),
        helper.make_node("Div", ["mean", "divisor"], ["features"]),
    ]
    constants = [
        helper.make_tensor("last", TensorProto.INT64, [1], [1]),
        helper.make_tensor("tiny", TensorProto.FLOAT, [], [1e-12]),
    ]
    graph = helper.make_graph(nodes, path.stem, [dense, boxes, owner], [features], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="pressroom")
    model.ir_version = 10
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def roi_align(features: Tensor, boxes: Tensor, owner: Tensor, size: int, scale: float) -> Tensor:
    """The operator as the exporter writes it: [R, C, size, size]. Outside an export it returns no values."""
    attributes: dict[str, Any] = {
        "mode": "avg",
        "coordinate_transformation_mode": "half_pixel",
        "output_height": size,
        "output_width": size,
        "sampling_ratio": 0,
        "spatial_scale": scale,
    }
    shape = (boxes.shape[0], features.shape[1], size, size)
    cut: Tensor = torch.onnx.ops.symbolic(
        "RoiAlign", (features, boxes, owner), attributes, dtype=features.dtype, shape=shape, version=16
    )
    return cut
