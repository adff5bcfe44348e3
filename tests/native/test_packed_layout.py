"""Packing loses nothing and says what it cannot take."""

from __future__ import annotations

import numpy as np
import pytest
from packed_layers import pruned, weights

from models.packed.layout import (
    LONG_RECORD,
    SHORT_RECORD,
    PackingError,
    fits_bfloat16,
    from_bfloat16,
    pack24,
    pack_dense,
    to_bfloat16,
    unpack24,
    unpack_dense,
)

SHAPES = [(16, 32), (1, 4), (37, 20), (192, 576), (5, 132)]


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_unpacking_gives_back_every_weight(shape: tuple[int, int], short: bool) -> None:
    matrix = pruned(weights(*shape, short=short))
    records = pack24(matrix, short=short)
    assert records.shape[2] == (SHORT_RECORD if short else LONG_RECORD)
    assert unpack24(records, *shape).tobytes() == matrix.tobytes()


@pytest.mark.parametrize(("short", "bytes_a_weight"), [(True, 1.125), (False, 2.125)])
def test_a_packed_weight_takes_little_more_than_half(short: bool, bytes_a_weight: float) -> None:
    matrix = pruned(weights(576, 1536, short=short))
    assert pack24(matrix, short=short).nbytes == matrix.size * bytes_a_weight


def test_groups_may_keep_fewer_than_two() -> None:
    matrix = np.zeros((3, 8), np.float32)
    matrix[1, 3], matrix[2, 4:6] = -2.5, [1.0, 3.0]
    assert (unpack24(pack24(matrix, short=True), 3, 8) == matrix).all()


def test_minus_zero_counts_as_pruned() -> None:
    matrix = np.array([[1.0, -0.0, 2.0, -0.0]], np.float32)
    assert unpack24(pack24(matrix, short=True), 1, 4).tolist() == [[1.0, 0.0, 2.0, 0.0]]


def test_infinities_and_nan_are_kept_as_they_are() -> None:
    matrix = np.array([[np.inf, 0.0, np.nan, 0.0]], np.float32)
    assert unpack24(pack24(matrix, short=True), 1, 4).tobytes() == matrix.tobytes()


def test_a_matrix_that_is_not_2_4_is_refused_by_place() -> None:
    matrix = pruned(weights(8, 16, short=True))
    matrix[5, 8:12] = [1.0, 2.0, 3.0, 0.0]
    with pytest.raises(PackingError, match=r"row 5, inputs 8\.\.11 hold 3 weights, expected at most 2"):
        pack24(matrix, short=True)


def test_inputs_must_come_in_fours() -> None:
    with pytest.raises(PackingError, match="6 inputs, expected a multiple of 4"):
        pack24(np.zeros((2, 6), np.float32), short=True)


def test_a_weight_that_would_be_rounded_is_refused() -> None:
    numbers = np.array([[1.0, 1.00001]], np.float32)
    assert not fits_bfloat16(numbers)
    with pytest.raises(PackingError, match="would change in bfloat16"):
        to_bfloat16(numbers)


@pytest.mark.parametrize("shape", [(16, 2), (37, 20), (320, 64)])
def test_dense_weights_come_back(shape: tuple[int, int]) -> None:
    matrix = weights(*shape, short=True)
    assert unpack_dense(pack_dense(matrix), shape[0]).tobytes() == matrix.tobytes()


def test_every_bfloat16_number_survives() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    assert (to_bfloat16(from_bfloat16(bits)) == bits).all()
