"""Linear8 computes what MatMulNBits does with 8 bits, and a graph that names it runs without the library, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, RuntimeException
from packed_layers import inputs, run
from packed_layers import session as op_session

from export.environment import cpu_flags
from export.llm_linear8 import CONTRIB, use_linear8
from models.packed.layout import Matrix
from models.packed.library import LIBRARY, LINEAR8

SHAPES = [(16, 64, 64), (40, 128, 64), (5, 576, 64), (960, 576, 64), (33, 256, 128), (17, 100, 64), (3, 40, 64)]
BATCHES = (1, 2, 3, 4, 7, 8, 9, 33)
ZERO = 128
needs_vnni = pytest.mark.skipif("avx512_vnni" not in cpu_flags()["flags"], reason="this processor has no AVX-512 VNNI")


def quantised(outputs: int, width: int, block: int, seed: int = 0) -> tuple[NDArray[np.uint8], Matrix]:
    """Random bytes [N, blocks, block] and scales [N, blocks]; beyond the inputs the byte that stands for nought."""
    generator = np.random.default_rng(seed)
    blocks = -(-width // block)
    weights = generator.integers(0, 256, (outputs, blocks * block), np.uint8)
    weights[:, width:] = ZERO
    scales = generator.uniform(0.001, 0.01, (outputs, blocks)).astype(np.float32)
    return weights.reshape(outputs, blocks, block), scales


def model(weights: NDArray[np.uint8], scales: Matrix, width: int) -> ModelProto:
    """One MatMulNBits of 8 bits, as the builder writes it."""
    outputs, _, block = weights.shape
    sizes = {"K": width, "N": outputs, "bits": 8, "block_size": block, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], name="layer", domain=CONTRIB, **sizes)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", outputs])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(scales, "s")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)], ir_version=10
    )


def session(made: ModelProto, *, library: bool, threads: int = 1) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    if library:
        options.register_custom_ops_library(str(LIBRARY))
    return ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def layer(shape: tuple[int, int, int], **settings: Any) -> Any:
    outputs, width, block = shape
    made = model(*quantised(outputs, width, block), width)
    assert use_linear8(made) == 1
    return session(made, **({"library": True} | settings))


def expected(x: Matrix, shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """The arithmetic in words: bytes of x block by block, exact sums inside a block, scales of both."""
    outputs, width, block = shape
    weights, scales = quantised(outputs, width, block)
    blocks = weights.shape[1]
    whole = np.zeros((len(x), blocks * block), np.float32)
    whole[:, :width] = x
    parts = whole.reshape(len(x), blocks, block)
    unit = np.abs(parts).max(axis=2) / np.float32(127)
    factor = np.divide(np.float32(1), unit, out=np.zeros_like(unit), where=unit > 0)
    rounded = np.rint(parts * factor[:, :, None]).clip(-127, 127).astype(np.int64)
    products = np.einsum("rbk,nbk->rnb", rounded, weights.astype(np.int64) - ZERO)
    answer: NDArray[np.float64] = np.einsum("rnb,rb,nb->rn", products.astype(np.float64), unit, scales)
    return answer


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("library", [pytest.param(True, marks=needs_vnni), False], ids=["kernels", "onnxruntime"])
def test_layers_multiply(shape: tuple[int, int, int], library: bool) -> None:
    made = layer(shape, library=library)
    for batch in BATCHES:
        x = inputs(batch, shape[1])
        exact = expected(x, shape)
        # onnxruntime's kernel need not round the halfway cases alike: a byte apart is one 127th of a block's largest
        room = 1e-5 if library else 0.02
        assert np.abs(run(made, x) - exact).max() <= room * np.abs(exact).max(), f"{batch} rows"


@needs_vnni
@pytest.mark.parametrize("shape", [(960, 576, 64), (17, 100, 64)], ids=str)
def test_a_row_answers_the_same_alone_and_in_company(shape: tuple[int, int, int]) -> None:
    made = layer(shape)
    x = inputs(33, shape[1])
    together = run(made, x)
    alone = np.concatenate([run(made, x[row : row + 1]) for row in range(len(x))])
    assert together.tobytes() == alone.tobytes()


@needs_vnni
def test_a_row_answers_the_same_with_more_threads() -> None:
    shape = (4096, 576, 64)
    one, three = (layer(shape, threads=count) for count in (1, 3))
    x = inputs(3, 576)
    assert run(one, x).tobytes() == run(three, x).tobytes()


def test_rows_of_nought_and_of_one_number_only() -> None:
    """A block of noughts has no scale to divide by; a block of equal numbers is all 127."""
    shape = (16, 64, 64)
    made = layer(shape)
    assert (run(made, np.zeros((2, 64), np.float32)) == 0).all()
    x = np.full((1, 64), 3.5, np.float32)
    weights, scales = quantised(*shape)
    plain = ((weights.astype(np.float64) - ZERO) * scales[:, :, None]).reshape(16, 64).sum(axis=1) * 3.5
    np.testing.assert_allclose(run(made, x)[0], plain, rtol=1e-5)


@needs_vnni
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_spoils_its_own_row_only(odd: float) -> None:
    made = layer((40, 128, 64))
    x = inputs(3, 128)
    clean = run(made, x)
    x[1, 5] = odd
    answer = run(made, x)
    assert np.isnan(answer[1]).all()
    assert answer[[0, 2]].tobytes() == clean[[0, 2]].tobytes()


def test_an_empty_batch_is_answered_by_an_empty_one() -> None:
    assert run(layer((40, 128, 64)), np.zeros((0, 128), np.float32)).shape == (0, 40)


@pytest.mark.parametrize(
    ("change", "why"),
    [({"bits": 4}, "4 bits"), ({"block_size": 32}, "blocks of 32"), ({"accuracy_level": 1}, "activations in float32")],
    ids=["bits", "block", "accuracy"],
)
def test_layers_it_cannot_stand_for_are_left_alone(change: dict[str, int], why: str) -> None:
    made = model(*quantised(16, 64, 64), 64)
    for attribute in made.graph.node[0].attribute:
        attribute.i = change.get(attribute.name, attribute.i)
    before = made.SerializeToString()
    assert use_linear8(made) == 0, why
    assert made.SerializeToString() == before


WEIGHTS, SCALES = quantised(16, 64, 64)
SIZES = {"in_features": 64, "out_features": 16, "block_size": 64}


@needs_vnni
@pytest.mark.parametrize(
    ("constants", "attributes", "reason"),
    [
        ({"bytes": WEIGHTS[:15], "scales": SCALES}, SIZES, "bytes: got 960 elements, the attributes ask for 1024"),
        ({"bytes": WEIGHTS, "scales": SCALES[:15]}, SIZES, "scales: got 15 elements, the attributes ask for 16"),
        ({"bytes": WEIGHTS, "scales": SCALES}, SIZES | {"block_size": 32}, "block_size: got 32, expected a multiple"),
        ({"bytes": WEIGHTS, "scales": SCALES}, SIZES | {"out_features": 0}, "out_features: got 0"),
    ],
    ids=["bytes", "scales", "block", "outputs"],
)
def test_weights_that_contradict_the_layer_are_refused_at_load(
    constants: dict[str, Any], attributes: dict[str, int], reason: str
) -> None:
    with pytest.raises(RuntimeException, match=reason):
        op_session(LINEAR8, constants, **attributes)


@needs_vnni
def test_inputs_of_another_width_are_refused() -> None:
    made = op_session(LINEAR8, {"bytes": WEIGHTS, "scales": SCALES}, **SIZES)
    with pytest.raises(InvalidArgument, match="X: its last axis must have 64 elements"):
        run(made, np.zeros((1, 60), np.float32))


@needs_vnni
def test_sessions_end_and_memory_is_given_back() -> None:
    """Layers share blocks of memory; the last of a block's layers takes it along."""
    shape = (4096, 1024, 64)
    for _ in range(3):
        layer(shape)
    before = _resident()
    for _ in range(20):
        layer(shape)  # 4 MB each
    assert _resident() - before < 40e6


def _resident() -> float:
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096.0
