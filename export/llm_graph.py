"""The builder's graph -> the served graph: logits only where they are wanted, tied weights stored once, no traces.

In   input_ids            int64   [B, S]
     attention_mask       int64   [B, T]                    a row's sum is its length after this step
     past_key_values.N.*  float32 [B, kv_heads, P, head_dim]
     logits_positions     int64   [K]                       which of the B*S positions, row by row (b*S + s)
Out  logits               float32 [K, V]
     present.N.*          float32 [B, kv_heads, T, head_dim]

The builder computes logits of all positions; the vocabulary's matrix is a fifth of a small model's work, so a long
prompt would pay it for every token. Where embedding and head share weights, the builder shares them in fp32 and int4
only: its int8 graphs carry the embedding once more, in float32, which is almost half of a small model's file.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from export.errors import ConversionError
from export.llm_linear8 import use_linear8

GRAPH, WEIGHTS = "model.onnx", "model.onnx.data"
POSITIONS, LOGITS = "logits_positions", "logits"
CONTRIB = "com.microsoft"
_HEAD, _EMBEDDING = "/lm_head/MatMul", "/model/embed_tokens/Gather"
_INLINE_BELOW = 1024  # bytes; smaller tensors stay inside the graph file


def fit(built: Path, out: Path, *, width: int, tied: bool) -> int:
    """Write GRAPH and WEIGHTS into `out`; returns the opset. width: H, of the hidden states.

    Raises ConversionError for a graph that is not laid out as expected.
    """
    model = onnx.load(built / GRAPH, load_external_data=False)
    head = _node(model.graph, _HEAD)
    if tied and head.op_type == "MatMulNBits" and _is_float(model.graph, _EMBEDDING):
        _share_embedding(model.graph, head, width)
    _select_positions(model.graph, head, width)
    use_linear8(model)
    _anonymous(model)
    onnx.load_external_data_for_model(model, str(built))
    onnx.save_model(model, out / GRAPH, save_as_external_data=True, location=WEIGHTS, size_threshold=_INLINE_BELOW)
    (out / WEIGHTS).chmod(0o644)
    return int(next(one.version for one in model.opset_import if one.domain == ""))


def _select_positions(graph: onnx.GraphProto, head: onnx.NodeProto, width: int) -> None:
    """hidden [B, S, H] -> [B*S, H] -> the wanted K rows -> head -> logits [K, V]."""
    graph.initializer.append(helper.make_tensor("hidden_rows_shape", TensorProto.INT64, [2], [-1, width]))
    rows = helper.make_node("Reshape", [head.input[0], "hidden_rows_shape"], ["hidden_rows"], name="/lm_head/Rows")
    kept = helper.make_node("Gather", ["hidden_rows", POSITIONS], ["hidden_kept"], name="/lm_head/Kept", axis=0)
    head.input[0] = "hidden_kept"
    _insert(graph, _place(graph, head.name), rows, kept)
    graph.input.append(helper.make_tensor_value_info(POSITIONS, TensorProto.INT64, ["kept"]))
    logits = next(one for one in graph.output if one.name == LOGITS)
    vocabulary = logits.type.tensor_type.shape.dim[-1].dim_value
    logits.CopyFrom(helper.make_tensor_value_info(LOGITS, TensorProto.FLOAT, ["kept", vocabulary]))


def _share_embedding(graph: onnx.GraphProto, head: onnx.NodeProto, width: int) -> None:
    """Embed tokens from the head's quantised rows instead of a float32 copy of them."""
    settings = {one.name: helper.get_attribute_value(one) for one in head.attribute}
    embedding = _node(graph, _EMBEDDING)
    place = _place(graph, embedding.name)
    stored, (quantised, scales) = embedding.input[0], head.input[1:3]
    stored_width = -(-width // settings["block_size"]) * settings["block_size"]  # whole blocks: zeros beyond H
    shape = helper.make_tensor("embedding_shape", TensorProto.INT64, [2], [settings["N"], stored_width])
    rows = helper.make_node("Reshape", [quantised, shape.name], ["embedding_rows"], name="/model/embed_tokens/Rows")
    gather = helper.make_node(
        "GatherBlockQuantized",
        [rows.output[0], embedding.input[1], scales],
        list(embedding.output) if stored_width == width else ["embedding_blocks"],
        name=_EMBEDDING,
        domain=CONTRIB,
        bits=settings["bits"],
        block_size=settings["block_size"],
        gather_axis=0,
        quantize_axis=1,
    )
    del graph.node[place]
    _insert(graph, place, rows, gather)
    if stored_width != width:
        _insert(graph, place + 2, _cut(graph, gather.output[0], embedding.output[0], width))
    graph.initializer.append(shape)
    graph.initializer.remove(next(one for one in graph.initializer if one.name == stored))


def _cut(graph: onnx.GraphProto, source: str, target: str, width: int) -> onnx.NodeProto:
    """The first `width` numbers of the last axis."""
    bounds = {"embedding_start": 0, "embedding_stop": width, "embedding_axis": -1}
    graph.initializer.extend(
        helper.make_tensor(name, TensorProto.INT64, [1], [value]) for name, value in bounds.items()
    )
    return helper.make_node("Slice", [source, *bounds], [target], name="/model/embed_tokens/Cut")


def _is_float(graph: onnx.GraphProto, name: str) -> bool:
    """Whether a node of that name gathers from a stored float tensor."""
    stored = {one.name for one in graph.initializer if one.data_type == TensorProto.FLOAT}
    return any(node.name == name and node.op_type == "Gather" and node.input[0] in stored for node in graph.node)


def _node(graph: onnx.GraphProto, name: str) -> onnx.NodeProto:
    """The node of a name; the builder appends `_Q4` and the like where weights are quantised."""
    found = [node for node in graph.node if node.name == name or node.name.startswith(f"{name}_")]
    if len(found) != 1:
        raise ConversionError(f"the builder's graph has {len(found)} nodes {name}", "report it with the model's type")
    node: onnx.NodeProto = found[0]
    return node


def _place(graph: onnx.GraphProto, name: str) -> int:
    return next(i for i, node in enumerate(graph.node) if node.name == name)


def _insert(graph: onnx.GraphProto, place: int, *nodes: onnx.NodeProto) -> None:
    for offset, node in enumerate(nodes):
        graph.node.insert(place + offset, node)


def _anonymous(model: onnx.ModelProto) -> None:
    """Drop what tells where and by what the graph was made; the builder writes the commit it believes to stand on."""
    del model.metadata_props[:]
    model.doc_string, model.producer_version = "", ""
    model.producer_name = "pressroom"
    model.graph.name, model.graph.doc_string = "language_model", ""
