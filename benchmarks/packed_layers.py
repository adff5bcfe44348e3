"""One layer at a time: onnxruntime's dense MatMul against the packed ops, CPU microseconds a call.

Each form has several copies of its weights, more than the caches hold together, and calls go round them: as in a
model, weights come from memory. Shapes are SmolLM2-135M's; the MatMul's time includes what a call of a session costs
(about 6 us), the packed ops' too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper

from models.packed.layout import Matrix, pack24, pack_dense
from models.packed.library import DOMAIN, LIBRARY, VERSION

SHAPES = {"o_proj": (576, 576), "qkv_proj": (960, 576), "gate_proj, up_proj": (1536, 576), "down_proj": (576, 1536)}
BATCHES = (1, 8, 128)
FORMS = ("MatMul fp32", "2:4 float32", "2:4 bfloat16", "dense bfloat16")
LAYER_HEADINGS = ("layer", "outputs x inputs", "rows", *FORMS, "2:4 bfloat16 / MatMul")
_WEIGHTS_AT_ONCE = 16e6  # of one form; 64 MB dense, twice the largest caches


def layer_rows(rounds: int) -> list[list[str]]:
    """The table's lines; prints none."""
    lines = []
    for name, (outputs, inputs) in SHAPES.items():
        copies = round(_WEIGHTS_AT_ONCE / (outputs * inputs))
        forms = [[make(outputs, inputs, seed) for seed in range(copies)] for make in _MAKERS]
        for batch in BATCHES:
            times = _measure(forms, np.ones((batch, inputs), np.float32), rounds)
            cells = [f"{1e6 * one:.0f}" for one in times]
            lines.append([name, f"{outputs} x {inputs}", str(batch), *cells, f"{times[2] / times[0]:.2f}"])
    return lines


def _measure(forms: Sequence[Sequence[Any]], x: Matrix, rounds: int) -> list[float]:
    """CPU seconds a call of each form: medians of turns, each once round the copies."""
    turns: list[list[float]] = [[] for _ in forms]
    for turn in range(rounds + 1):
        for copies, found in zip(forms, turns, strict=True):
            began = time.process_time()
            for copy in copies:
                copy.run(None, {"x": x})
            if turn:  # the first warms
                found.append((time.process_time() - began) / len(copies))
    return [median(found) for found in turns]


def _weights(outputs: int, inputs: int, seed: int) -> Matrix:
    """bfloat16 numbers that keep two of every four."""
    draw = np.random.default_rng(seed)
    groups = (draw.random((outputs, inputs // 4, 4), np.float32) + 0.5).view(np.uint32) & 0xFFFF0000
    numbers = groups.view(np.float32)
    places = np.argsort(draw.random(numbers.shape, np.float32), axis=2)[:, :, :2]
    np.put_along_axis(numbers, places, 0, axis=2)
    return numbers.reshape(outputs, inputs)


def _matmul(outputs: int, inputs: int, seed: int) -> Any:
    return _session("MatMul", "", {"w": np.ascontiguousarray(_weights(outputs, inputs, seed).T)})


def _packed(outputs: int, inputs: int, seed: int, *, short: bool = True) -> Any:
    records = pack24(_weights(outputs, inputs, seed), short=short)
    return _session("PackedLinear24", DOMAIN, {"w": records}, in_features=inputs, rows=[outputs])


def _packed_long(outputs: int, inputs: int, seed: int) -> Any:
    return _packed(outputs, inputs, seed, short=False)


def _dense(outputs: int, inputs: int, seed: int) -> Any:
    values = pack_dense(_weights(outputs, inputs, seed))
    return _session("Linear16", DOMAIN, {"w": values}, in_features=inputs, out_features=outputs)


_MAKERS = (_matmul, _packed_long, _packed, _dense)


def _session(op: str, domain: str, constants: dict[str, NDArray[Any]], **attributes: Any) -> Any:
    """One node as a model of its own, on one thread."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *constants], ["y"], domain=domain, **attributes)],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [_constant(name, numbers) for name, numbers in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, VERSION)]
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.register_custom_ops_library(str(LIBRARY))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _constant(name: str, numbers: NDArray[Any]) -> TensorProto:
    kind = TensorProto.BFLOAT16 if numbers.dtype == np.uint16 else helper.np_dtype_to_tensor_dtype(numbers.dtype)
    return TensorProto(name=name, dims=numbers.shape, data_type=kind, raw_data=numbers.tobytes())
