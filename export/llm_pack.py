"""A pressed fp32 language model whose projections are 2:4 -> the same graph with packed layers.

MatMul(x, W), a decoder layer's projection  ->  PackedLinear24: values and positions, half the weights are read
MatMul(h, E), the head                      ->  Linear16     } where every weight is a bfloat16 number, as in
Gather(E, ids), its embedding               ->  Embedding16  } checkpoints stored so: same numbers, half the bytes
Nothing is rounded: what was packed is unpacked again and compared. A projection that is not 2:4 is refused by name.

A matrix whose pattern holds in another order of its inputs (`pressroom prune --permute` leaves the file in its order
and stores p) is packed as W[:, p], and the layer reads x[p]. Queries, keys and values share one MatMul; each keeps
its own order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from safetensors.numpy import load_file

from export.errors import ConversionError
from export.llm_weights import WeightFile, Weights
from models.packed.layout import Matrix, PackingError, fits_bfloat16, pack24, pack_dense, unpack24, unpack_dense
from models.packed.library import DOMAIN, VERSION

GRAPH, WEIGHTS = "model.onnx", "model.onnx.data"
PERMUTATIONS = Path("pruning") / "permutations.safetensors"  # in the checkpoint's folder
Orders = Mapping[str, NDArray[np.int64]]  # "model.layers.3.mlp.up_proj.weight" -> p [C]: the pattern holds in W[:, p]

_PROJECTION = re.compile(r"/model/layers\.(\d+)/(attn|mlp)/(qkv|q|k|v|o|gate|up|down)_proj/MatMul$")
_LAYER, _HEAD, _EMBEDDING = "/model/layers.", "/lm_head/MatMul", "/model/embed_tokens/Gather"
_REMEDY = "prune with `pressroom prune --pattern 2:4`, or press as fp32, int8 or int4"


@dataclass(frozen=True, kw_only=True)
class PackReport:
    """What packing did; sizes in bytes.

    projections   packed MatMuls of decoder layers; queries, keys and values of a layer are one
    short         of these, stored as bfloat16; the others as float32
    permuted      of these, that read their inputs in an order of their own
    short_head    head and embedding stored as bfloat16
    dense_bytes, packed_bytes                           the file of weights before and after
    projection_dense_bytes, projection_packed_bytes     the projections' share in it
    """

    projections: int
    short: int
    permuted: int
    short_head: bool
    dense_bytes: int
    packed_bytes: int
    projection_dense_bytes: int
    projection_packed_bytes: int


def read_orders(checkpoint: Path) -> Orders:
    """Orders of inputs that the pruner stored beside a checkpoint; empty if it folded or needed none."""
    path = checkpoint / PERMUTATIONS
    return load_file(path) if path.is_file() else {}


def pack_graph(source: Path, target: Path, orders: Orders | None = None) -> PackReport:
    """Write GRAPH and WEIGHTS of the packed model into `target`; `source` holds those of the fp32 model.

    Raises ConversionError, which names the layer, where a projection is not 2:4 or the graph is laid out differently.
    """
    model = onnx.load(source / GRAPH, load_external_data=False)
    weights = Weights(source, model.graph)
    with WeightFile(target / WEIGHTS) as file:
        packer = _Packer(model.graph, weights, file, orders or {})
        packer.pack_projections()
        packer.pack_head()
        weights.move_used(file)
    model.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    (target / GRAPH).write_bytes(model.SerializeToString(deterministic=True))
    sizes = {"dense_bytes": _size(source), "packed_bytes": _size(target)}
    return PackReport(**sizes, **packer.counts, short_head=packer.short_head)


def _size(folder: Path) -> int:
    return (folder / WEIGHTS).stat().st_size


class _Packer:
    """Replaces nodes of one graph in place."""

    def __init__(self, graph: onnx.GraphProto, weights: Weights, file: WeightFile, orders: Orders) -> None:
        self._graph, self._weights, self._file, self._orders = graph, weights, file, orders
        kinds = ("projections", "short", "permuted", "projection_dense_bytes", "projection_packed_bytes")
        self.counts = dict.fromkeys(kinds, 0)
        self.short_head = False

    def pack_projections(self) -> None:
        for place, node in enumerate(self._graph.node):
            if (
                node.op_type != "MatMul"
                or not node.name.startswith(_LAYER)
                or node.input[1] not in self._weights.tensors
            ):
                continue
            named = _PROJECTION.match(node.name)
            if not named:
                raise ConversionError(
                    f"{node.name}: a MatMul that is no known projection", "press as fp32, int8 or int4"
                )
            self._graph.node[place].CopyFrom(self._projection(node, *named.groups()))
        if not self.counts["projections"]:
            raise ConversionError("the graph has no projections to pack", "give the fp32 graph of a Llama-style model")

    def _projection(self, node: onnx.NodeProto, layer: str, block: str, name: str) -> onnx.NodeProto:
        weight = _plain(self._weights.read(node.input[1]))  # [R, C]
        rows, orders = self._parts(node, len(weight), layer, block, name)
        short = fits_bfloat16(weight)
        packed = []
        for number, part in enumerate(np.split(weight, np.cumsum(rows)[:-1])):
            ordered = part[:, orders[number]] if orders else part
            try:
                packed.append(pack24(ordered, short=short))
            except PackingError as error:
                raise ConversionError(f"{node.name}: {error}", _REMEDY) from error
            if not np.array_equal(unpack24(packed[-1], *ordered.shape), ordered):
                raise ConversionError(f"{node.name}: unpacking does not give back the weights", "report it")
        records = np.concatenate(packed)
        inputs = [node.input[0], self._add(f"{node.input[1]}.records", records, TensorProto.UINT8)]
        if orders:
            inputs.append(self._add(f"{node.input[1]}.order", np.stack(orders).astype(np.int32), TensorProto.INT32))
        self._count(short, bool(orders), weight.nbytes, records.nbytes)
        return _op("PackedLinear24", node, inputs, in_features=weight.shape[1], rows=rows)

    def _parts(
        self, node: onnx.NodeProto, outputs: int, layer: str, block: str, name: str
    ) -> tuple[list[int], list[NDArray[np.int64]]]:
        """Outputs of each part and orders of their inputs; one part and no order where the file's holds."""
        place = "self_attn" if block == "attn" else block
        names = [f"model.layers.{layer}.{place}.{one}_proj.weight" for one in (name if name == "qkv" else [name])]
        if not any(one in self._orders for one in names):
            return [outputs], []
        rows = self._head_rows(node, outputs) if name == "qkv" else [outputs]
        channels = self._weights.tensors[node.input[1]].dims[0]
        return rows, [self._orders.get(one, np.arange(channels)) for one in names]

    def _head_rows(self, node: onnx.NodeProto, outputs: int) -> list[int]:
        """Rows of queries, keys and values in their common matrix, as the attention that reads it splits them."""
        reader = next(one for one in self._graph.node if one.op_type == "GroupQueryAttention" and _reads(one, node))
        heads = {one.name: int(one.i) for one in reader.attribute if one.name in ("num_heads", "kv_num_heads")}
        width = outputs // (heads["num_heads"] + 2 * heads["kv_num_heads"])
        return [heads["num_heads"] * width, heads["kv_num_heads"] * width, heads["kv_num_heads"] * width]

    def pack_head(self) -> None:
        """Head and embedding in bfloat16 where that is exact; a tied pair shares one tensor."""
        stored: dict[str, str] = {}
        by_name = {node.name: place for place, node in enumerate(self._graph.node)}
        if (place := by_name.get(_HEAD)) is not None:
            self._replace_dense(place, "Linear16", self._graph.node[place].input[1], True, stored)
        if (place := by_name.get(_EMBEDDING)) is not None:
            matrix = self._graph.node[place].input[0]
            turn = next((one for one in self._graph.node if one.op_type == "Transpose" and matrix in one.output), None)
            self._replace_dense(place, "Embedding16", turn.input[0] if turn else matrix, turn is not None, stored)
            if turn and not any(turn.output[0] in one.input for one in self._graph.node):
                self._graph.node.remove(turn)

    def _replace_dense(self, place: int, kind: str, name: str, is_turned: bool, stored: dict[str, str]) -> None:
        """is_turned: the initializer is [C, R]."""
        if name not in self._weights.tensors:
            return
        numbers = self._weights.read(name)
        weight = _plain(numbers) if is_turned else np.asarray(numbers)
        if weight.dtype != np.float32 or weight.shape[1] % 2 or not fits_bfloat16(weight):
            return
        if name not in stored:
            values = pack_dense(weight)
            if not np.array_equal(unpack_dense(values, len(weight)), weight):
                raise ConversionError(f"{name}: unpacking does not give back the weights", "report it")
            stored[name] = self._add(f"{name}.values", values, TensorProto.BFLOAT16)
        node = self._graph.node[place]
        data = node.input[0 if kind == "Linear16" else 1]
        sizes = {"in_features": weight.shape[1], "out_features": len(weight)}
        node.CopyFrom(_op(kind, node, [data, stored[name]], **sizes))
        self.short_head = True

    def _add(self, name: str, numbers: NDArray[Any], kind: int) -> str:
        self._graph.initializer.append(self._file.add(name, numbers, kind))
        return name

    def _count(self, is_short: bool, is_permuted: bool, dense: int, packed: int) -> None:
        found = {"projections": 1, "short": is_short, "permuted": is_permuted}
        for key, value in {**found, "projection_dense_bytes": dense, "projection_packed_bytes": packed}.items():
            self.counts[key] += value


def _plain(stored: NDArray[Any]) -> Matrix:
    """A MatMul's second input [C, R] -> W [R, C]."""
    weight: Matrix = np.ascontiguousarray(stored.T)
    return weight


def _reads(reader: onnx.NodeProto, node: onnx.NodeProto) -> bool:
    return any(name in reader.input for name in node.output)


def _op(kind: str, node: onnx.NodeProto, inputs: list[str], **sizes: Any) -> onnx.NodeProto:
    """A node of ours in the place of `node`."""
    return helper.make_node(kind, inputs, list(node.output), name=node.name, domain=DOMAIN, **sizes)
