"""The two graphs no artifact holds as a peer could serve it: a small MLP, and CLIPSelf's region scorer in one piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

from export.artifact import Artifact
from models.clipself.pipeline.engine import ARRAYS, REGIONS, TEXT, VISION, Engine, Graphs, Run
from models.clipself.pipeline.label_embeddings import LabelEmbedder
from models.clipself.pipeline.spec import DetectSpec
from services.core.runtime import OnnxRuntime, RuntimeOptions

Array = npt.NDArray[np.float32]
OPSET, IR_VERSION = 20, 10
SEED = 7
STEPS, COLUMNS, HIDDEN = 96, 7, 2048  # of the MLP: a forecaster's shapes; 0.2 ms alone, 0.07 ms a row in batches
SIDE, BOXES = 64, 8  # pixels, the tower's own size; boxes an image
LABELS = ("circle", "square", "triangle", "star", "ring", "cross")


def write_mlp(path: Path) -> None:
    """x [batch, 96, 7] -> y [batch, 96, 7]: two dense layers with seeded weights."""
    size = STEPS * COLUMNS
    rng = np.random.default_rng(SEED)

    def weights(rows: int, columns: int) -> Array:
        return np.asarray(rng.standard_normal((rows, columns)) / np.sqrt(rows), np.float32)

    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], axis=1),
        helper.make_node("Gemm", ["flat", "w0", "b0"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w1", "b1"], ["out"]),
        helper.make_node("Reshape", ["out", "shape"], ["y"]),
    ]
    constants = {
        "w0": weights(size, HIDDEN),
        "b0": np.zeros(HIDDEN, np.float32),
        "w1": weights(HIDDEN, size),
        "b1": np.zeros(size, np.float32),
        "shape": np.array([-1, STEPS, COLUMNS]),
    }
    shape: list[str | int] = ["batch", STEPS, COLUMNS]
    graph = helper.make_graph(nodes, "mlp", [_floats("x", shape)], [_floats("y", shape)], _tensors(constants))
    _write(graph, path)


def write_region_scorer(clip: Artifact, path: Path) -> None:
    """pixels [batch, 3, 64, 64] and boxes [batch, 8, 4] in pixels -> scores [batch, 8, 6], cosines with LABELS.

    The artifact's image tower and region head joined, its position tables and label embeddings as constants.
    """
    spec = DetectSpec.from_settings(clip.manifest.settings)
    labels, tables = _embedded(clip, spec)
    tower = _with_constants(onnx.load(clip.file(VISION)), tables)
    head = compose.add_prefix(onnx.load(clip.file(REGIONS)), "head_")
    merged = compose.merge_models(tower, head, io_map=[("dense", "head_dense")])
    joined = merged.graph
    before = [
        helper.make_node("Shape", ["pixels"], ["images"], end=1),
        helper.make_node("Squeeze", ["images"], ["count"]),
        helper.make_node("Range", ["zero", "count", "one"], ["each"]),
        helper.make_node("Unsqueeze", ["each", "last"], ["column"]),
        helper.make_node("Expand", ["column", "boxes_each"], ["owners"]),
        helper.make_node("Reshape", ["owners", "flat"], ["head_owner"]),
        helper.make_node("Reshape", ["boxes", "four"], ["in_pixels"]),
        helper.make_node("Div", ["in_pixels", "patch"], ["head_boxes"]),
    ]
    after = [
        helper.make_node("MatMul", ["head_features", "labels"], ["cosines"]),
        helper.make_node("Reshape", ["cosines", "by_image"], ["scores"]),
    ]
    constants = {
        "zero": np.array(0),
        "one": np.array(1),
        "last": np.array([1]),
        "boxes_each": np.array([1, BOXES]),
        "flat": np.array([-1]),
        "four": np.array([-1, 4]),
        "patch": np.array(spec.patch_size, np.float32),
        "labels": np.ascontiguousarray(labels.T),
        "by_image": np.array([-1, BOXES, len(LABELS)]),
    }
    graph = helper.make_graph(
        [*before, *joined.node, *after],
        "region_scorer",
        [_floats("pixels", ["batch", 3, SIDE, SIDE]), _floats("boxes", ["batch", BOXES, 4])],
        [_floats("scores", ["batch", BOXES, len(LABELS)])],
        [*joined.initializer, *_tensors(constants)],
    )
    _write(graph, path, list(merged.opset_import))


def _embedded(clip: Artifact, spec: DetectSpec) -> tuple[Array, dict[str, Array]]:
    """Embeddings of LABELS [C, E], and the tower's tables for a 64 x 64 image."""
    from safetensors.numpy import load_file

    def run(name: str) -> Run:
        return OnnxRuntime(clip.file(name), RuntimeOptions(threads=1)).run

    arrays = load_file(clip.file(ARRAYS))
    engine = Engine(spec, Graphs.of(spec, (VISION, TEXT, REGIONS), run, arrays))
    embedder = LabelEmbedder(engine, arrays)
    grid = SIDE // spec.patch_size
    return np.stack([embedder.embed(label, spec.templates) for label in LABELS]), engine.graphs.tables.of((grid, grid))


def _with_constants(model: onnx.ModelProto, constants: dict[str, Array]) -> onnx.ModelProto:
    """The model with some inputs fixed."""
    graph = model.graph
    kept = [one for one in graph.input if one.name not in constants]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(_tensors(constants))
    return model


def _floats(name: str, shape: list[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _tensors(arrays: dict[str, npt.NDArray]) -> list[onnx.TensorProto]:  # type: ignore[type-arg]
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def _write(graph: onnx.GraphProto, path: Path, opsets: list[onnx.OperatorSetIdProto] | None = None) -> None:
    opsets = opsets or [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
