"""int8 dynamic quantisation of an ONNX graph: weights stored as int8, activations rounded while it runs.

Every MatMul (and Gemm) with constant weights becomes one over integers: weights per output channel and symmetric,
activations per tensor, their range taken from the tensor itself. Weights keep to 7 bits: the sums of 8-bit ones
saturate on processors without VNNI, and an artifact has to compute the same everywhere.

The range of a whole batch decides the step of its rounding, so a row's answer depends, within the certificate's
tolerance, on what shares its batch: `mates` in the certificate is how much, measured.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from export.artifact import Metric
from export.errors import ConversionError, ParityError
from export.onnx_graph import anonymous, quiet
from export.parity import Tolerance
from export.runner import Runner, Tensors

PRECISION = "int8"
LAYERS = ["MatMul", "Gemm"]
TOLERANCE = Tolerance(atol=0.2, rtol=0.02)  # scaled units; measured on trained forecasters: up to 0.05


@dataclass(frozen=True)
class Quantised:
    """What quantisation did. layers: made of integers; bytes of the graph before and after."""

    layers: int
    fp32_bytes: int
    int8_bytes: int

    def as_json(self) -> dict[str, Any]:
        """What the certificate says of it."""
        return {"precision": PRECISION, "layers": self.layers, "fp32_bytes": self.fp32_bytes, "bytes": self.int8_bytes}


def quantise(graph: Path) -> Quantised:
    """Replace a float32 graph by its int8 form, in place. Raises ConversionError if no layer can become one."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    before = graph.stat().st_size
    title = onnx.load(graph).graph.name
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch, quiet(), _silent():
        made = Path(scratch) / graph.name
        quantize_dynamic(
            graph,
            made,
            op_types_to_quantize=LAYERS,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},  # behind onnxruntime's own operators
        )
        model = anonymous(onnx.load(made), title)
    layers = sum(node.op_type == "MatMulInteger" for node in model.graph.node)
    if not layers:
        raise ConversionError(f"{graph.name} has no layer that int8 could be used for", "export it as fp32")
    graph.write_bytes(model.SerializeToString(deterministic=True))
    return Quantised(layers, before, graph.stat().st_size)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The quantiser logs every node to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def refused(breach: str) -> ParityError:
    """What is raised where float32 held and int8 does not."""
    return ParityError(f"int8: {breach}", "this network does not bear int8: export it as fp32")


def mates(run: Runner, tensors: Tensors) -> float:
    """How far a row's answer in a batch is from its answer alone, at most, in the network's units."""
    together = run(tensors)
    alone = [run({name: values[i : i + 1] for name, values in tensors.items()}) for i in range(len(together))]
    return float(f"{np.abs(together - np.concatenate(alone)).max():.2e}")


def beside_fp32(int8: list[Metric], fp32: list[Metric]) -> list[Metric]:
    """Both precisions' figures: what the answers cost in accuracy can be read off."""
    return [*int8, *(metric.model_copy(update={"name": f"{metric.name}_fp32"}) for metric in fp32)]
