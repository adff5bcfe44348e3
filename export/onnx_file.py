"""An ONNX file as somebody else made it: whether it can be served, and what its graph says of its tensors.

Served is a graph of standard operators that is whole in one file, has tensors in and out, and whose inputs and outputs
have the batch as their first axis. What is refused is refused by name, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx.external_data_helper import uses_external_data

from export.artifact import Datatype
from export.errors import CheckpointFileError, ConversionError
from export.onnx_graph import anonymous

BATCH = "batch"
OLDEST_OPSET = 7  # what onnxruntime runs
STANDARD, BUILT_IN = ("", "ai.onnx", "ai.onnx.ml"), "com.microsoft"  # onnxruntime brings the latter's operators along
DATATYPES: dict[int, Datatype] = {
    onnx.TensorProto.FLOAT: "FP32", onnx.TensorProto.DOUBLE: "FP64", onnx.TensorProto.FLOAT16: "FP16",
    onnx.TensorProto.INT8: "INT8", onnx.TensorProto.INT16: "INT16", onnx.TensorProto.INT32: "INT32",
    onnx.TensorProto.INT64: "INT64", onnx.TensorProto.UINT8: "UINT8", onnx.TensorProto.UINT16: "UINT16",
    onnx.TensorProto.UINT32: "UINT32", onnx.TensorProto.UINT64: "UINT64", onnx.TensorProto.BOOL: "BOOL",
}  # fmt: skip
_REST = ("no tensor", "export the graph with tensors only; skl2onnx: options={'zipmap': False}")

Shape = list[int | str | None]


@dataclass(frozen=True)
class Declared:
    """An input or output as the graph declares it. shape: sizes, names of free axes, None for one without a name."""

    name: str
    datatype: Datatype
    shape: Shape


@dataclass(frozen=True)
class OnnxFile:
    """A graph that may be served."""

    model: onnx.ModelProto
    inputs: tuple[Declared, ...]
    outputs: tuple[Declared, ...]
    opset: int
    tensors: int


def read_graph(path: Path, *, free_batch: bool = False) -> OnnxFile:
    """Read and check a file.

    free_batch  the first axis of every input and output becomes free, whatever number or name the file gives it
    Raises CheckpointFileError for what is no whole ONNX file, ConversionError for a graph that cannot be served.
    """
    model = _parse(path)
    _require_whole(model)
    opset = _check_operators(model)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as fault:
        reason = str(fault).strip().splitlines()[0]
        raise CheckpointFileError(f"{path.name} breaks ONNX's own rules: {reason}") from None
    if free_batch:
        for value in (*_true_inputs(model.graph), *model.graph.output):
            if value.type.tensor_type.shape.dim:
                value.type.tensor_type.shape.dim[0].dim_param = BATCH
    inputs = tuple(_declared(value, "input") for value in _true_inputs(model.graph))
    outputs = tuple(_declared(value, "output") for value in model.graph.output)
    _require_batch(inputs, outputs)
    tensors = len(model.graph.initializer)
    return OnnxFile(anonymous(model, "graph"), inputs, outputs, opset, tensors)


def _parse(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, OSError):
        raise CheckpointFileError(f"{path.name} is not an ONNX file", "give a .onnx file") from None
    if not model.graph.node:
        raise CheckpointFileError(f"{path.name} holds no ONNX graph", "give a .onnx file")
    if model.ir_version > onnx.IR_VERSION:
        raise CheckpointFileError(
            f"{path.name} is of IR version {model.ir_version}, this installation reads up to {onnx.IR_VERSION}",
            "export it with an older onnx",
        )
    return model


def _require_whole(model: onnx.ModelProto) -> None:
    for graph in _graphs(model):
        attributes = [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
        for tensor in (*graph.initializer, *attributes):
            if uses_external_data(tensor):
                raise CheckpointFileError(
                    f"the weights are not in the file: {tensor.name!r} lies in another one",
                    "join them: onnx.save(onnx.load(FILE), ONE_FILE)",
                )


def _check_operators(model: onnx.ModelProto) -> int:
    """The standard operator set's version, once every operator is known to be of a set onnxruntime has."""
    newest = onnx.defs.onnx_opset_version()
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None)
    if opset is None or not OLDEST_OPSET <= opset <= newest:
        raise ConversionError(
            f"the graph is of opset {opset}, served are {OLDEST_OPSET} to {newest}", "export it with another opset"
        )
    local = {(function.domain, function.name) for function in model.functions}
    for node in _nodes(model):
        if node.domain not in (*STANDARD, BUILT_IN) and (node.domain, node.op_type) not in local:
            raise ConversionError(
                f"the graph needs the operator {node.domain}::{node.op_type}, which onnxruntime does not bring along",
                "a library of custom operators is code, and an artifact carries none: "
                "export with standard operators, or with the operator as a function of the model",
            )
    return int(opset)


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The graph and those inside its nodes."""
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else attribute.graphs


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in _graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def _true_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs that are not merely the names of weights, as old files list them."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _declared(value: onnx.ValueInfoProto, side: str) -> Declared:
    if not value.type.HasField("tensor_type"):
        raise ConversionError(f"{side} {value.name!r} is {_REST[0]}", _REST[1])
    kind = value.type.tensor_type
    datatype = DATATYPES.get(kind.elem_type)
    if datatype is None:
        name = onnx.TensorProto.DataType.Name(kind.elem_type)
        raise ConversionError(
            f"{side} {value.name!r} is of {name}, which is not served", f"served: {', '.join(DATATYPES.values())}"
        )
    return Declared(value.name, datatype, _shape(kind))


def _shape(kind: onnx.TypeProto.Tensor) -> Shape:
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.shape.dim]


def _require_batch(inputs: Sequence[Declared], outputs: Sequence[Declared]) -> None:
    """Every tensor has a free first axis, and the inputs have one and the same."""
    if not inputs:
        raise ConversionError("the graph has no inputs", "there is nothing to ask it")
    for side, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            if not tensor.shape:
                raise ConversionError(
                    f"{side} {tensor.name!r} has no axes, so no batch", "export it with the batch as first axis"
                )
            if isinstance(tensor.shape[0], int):
                raise ConversionError(
                    f"the first axis of {side} {tensor.name!r} is fixed at {tensor.shape[0]}: no batch can be joined",
                    "export with that axis free (torch.onnx.export: dynamic_shapes), or try --free-batch",
                )
    names = {tensor.shape[0] for tensor in inputs} - {None}
    if len(names) > 1:
        raise ConversionError(
            f"the first axes of the inputs are not one: {', '.join(sorted(map(str, names)))}",
            "if they are the same rows after all, try --free-batch",
        )
