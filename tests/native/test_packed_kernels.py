"""The kernels compute W x, at every level, for every shape and batch, and a row's answer is its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, RuntimeException
from packed_layers import dense_layer, embedding, inputs, packed_layer, pruned, run, session, weights

from models.packed.layout import Matrix, pack24

BATCHES = (1, 2, 7, 16, 64, 200)
SHAPES = [(16, 32), (5, 4), (37, 20), (192, 576), (33, 132)]  # inputs: multiples of four, not of sixteen
ROOT = Path(__file__).parents[2]


def expected(x: Matrix, matrix: Matrix) -> Any:
    """In float64, and how far sums in float32 may be from it."""
    exact = x.astype(np.float64) @ matrix.T.astype(np.float64)
    bound = np.abs(x).astype(np.float64) @ np.abs(matrix).T.astype(np.float64)
    return exact, 1e-7 * (4 + matrix.shape[1] / 4) * bound + 1e-30


@pytest.mark.parametrize("short", [True, False], ids=["bfloat16", "float32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_packed_layers_multiply(level: str, shape: tuple[int, int], short: bool) -> None:
    matrix = pruned(weights(*shape, short=short))
    layer = packed_layer(matrix)
    for batch in BATCHES:
        x = inputs(batch, shape[1])
        exact, bound = expected(x, matrix)
        assert (np.abs(run(layer, x) - exact) <= bound).all(), f"{batch} rows"


@pytest.mark.parametrize("shape", [(16, 2), (37, 20), (320, 64)], ids=str)
def test_dense_layers_multiply(level: str, shape: tuple[int, int]) -> None:
    matrix = weights(*shape, short=True)
    layer = dense_layer(matrix)
    for batch in BATCHES:
        x = inputs(batch, shape[1])
        exact, bound = expected(x, matrix)
        assert (np.abs(run(layer, x) - exact) <= bound).all(), f"{batch} rows"


@pytest.mark.parametrize("make", [packed_layer, dense_layer])
def test_a_row_answers_the_same_alone_and_in_company(level: str, make: Any) -> None:
    layer = make(pruned(weights(40, 64, short=True)))
    x = inputs(200, 64)
    together = run(layer, x)
    alone = np.concatenate([run(layer, x[row : row + 1]) for row in range(len(x))])
    assert together.tobytes() == alone.tobytes()


def test_a_row_answers_the_same_with_more_threads(level: str) -> None:
    matrix = pruned(weights(2048, 576, short=True))
    constants = {"records": pack24(matrix, short=True)}
    one, three = (session("PackedLinear24", constants, threads=count, in_features=576, rows=[2048]) for count in (1, 3))
    x = inputs(3, 576)
    assert run(one, x).tobytes() == run(three, x).tobytes()


def test_parts_read_their_inputs_in_their_own_order(level: str) -> None:
    """As queries, keys and values whose 2:4 pattern was found in three orders."""
    parts, columns = [24, 8, 8], 32
    orders = np.stack([np.random.default_rng(n).permutation(columns) for n in range(3)]).astype(np.int32)
    matrix = np.zeros((40, columns), np.float32)
    starts = np.cumsum([0, *parts])
    for n, order in enumerate(orders):
        rows = slice(starts[n], starts[n + 1])
        matrix[rows, order] = pruned(weights(parts[n], columns, short=True, seed=n), seed=n)
    layer = packed_layer(matrix, orders, parts)
    for batch in (1, 9):
        x = inputs(batch, columns)
        exact, bound = expected(x, matrix)
        assert (np.abs(run(layer, x) - exact) <= bound).all()


def test_axes_before_the_last_are_kept_and_may_be_empty(level: str) -> None:
    layer = packed_layer(pruned(weights(24, 8, short=True)))
    assert run(layer, np.zeros((2, 3, 8), np.float32)).shape == (2, 3, 24)
    assert run(layer, np.zeros((8,), np.float32)).shape == (24,)
    assert run(layer, np.zeros((0, 8), np.float32)).shape == (0, 24)


def test_an_infinite_input_spoils_only_rows_that_keep_a_weight_for_it(level: str) -> None:
    """Pruned weights are skipped: 0 * inf, which a dense product turns into NaN, does not happen."""
    matrix = np.array([[0, 1, 2, 0, 1, 1, 0, 0], [1, 1, 0, 0, 1, 1, 0, 0], [0, -1, 0, 3, 0, 0, 1, 1]], np.float32)
    x = np.array([[np.inf, 1, 1, 1, 1, 1, 1, 1]], np.float32)
    assert run(packed_layer(matrix), x).tolist() == [[5.0, np.inf, 4.0]]
    x[0, 0] = np.nan
    answer = run(packed_layer(matrix), x)[0]
    assert answer[[0, 2]].tolist() == [5.0, 4.0]
    assert np.isnan(answer[1])


def test_embedding_returns_rows_unchanged() -> None:
    matrix = weights(37, 20, short=True)
    ids = np.array([[0, 36], [16, 15]], np.int64)
    assert (run(embedding(matrix), ids) == matrix[ids]).all()


@pytest.mark.parametrize("wrong", [-1, 37])
def test_a_token_beyond_the_vocabulary_is_refused(wrong: int) -> None:
    with pytest.raises(InvalidArgument, match=f"ids: got {wrong}, the vocabulary has 37"):
        run(embedding(weights(37, 20, short=True)), np.array([wrong], np.int64))


def test_inputs_of_another_width_are_refused() -> None:
    layer = packed_layer(pruned(weights(16, 32, short=True)))
    with pytest.raises(InvalidArgument, match="X: its last axis must have 32 elements"):
        run(layer, np.zeros((1, 36), np.float32))


RECORDS = pack24(pruned(weights(16, 32, short=True)), short=True)
ORDER = np.arange(32, dtype=np.int32)[None]


@pytest.mark.parametrize(
    ("constants", "attributes", "reason"),
    [
        ({"records": RECORDS}, {"in_features": 30, "rows": [16]}, "in_features: got 30, expected a multiple of 4"),
        ({"records": RECORDS}, {"in_features": 0, "rows": [16]}, "in_features: got 0"),
        ({"records": RECORDS}, {"in_features": 32, "rows": [17]}, "records: got 576 elements, the attributes ask for"),
        ({"records": RECORDS}, {"in_features": 32, "rows": [16, -1]}, "rows: every part needs a row"),
        ({"records": RECORDS[:, :, :500]}, {"in_features": 32, "rows": [16]}, "records: of 500 bytes are not known"),
        ({"records": RECORDS, "order": ORDER[:, :31]}, {"in_features": 32, "rows": [16]}, "order: got 31 elements"),
        ({"records": RECORDS, "order": ORDER + 1}, {"in_features": 32, "rows": [16]}, "order: names an input"),
    ],
    ids=["inputs", "no-inputs", "rows", "part", "record", "short-order", "order"],
)
def test_weights_that_contradict_the_layer_are_refused_at_load(
    constants: dict[str, Any], attributes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RuntimeException, match=reason):
        session("PackedLinear24", constants, **attributes)


def test_a_level_the_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESSROOM_SIMD", "neon9")
    with pytest.raises(RuntimeException, match="this processor cannot run neon9"):
        packed_layer(pruned(weights(16, 32, short=True)))


def test_sessions_come_and_go() -> None:
    """The ops outlive the session that asked for them first."""
    script = """
import gc
from packed_layers import inputs, packed_layer, pruned, run, weights
for _ in range(3):
    run(packed_layer(pruned(weights(16, 32, short=True))), inputs(1, 32))
    gc.collect()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
