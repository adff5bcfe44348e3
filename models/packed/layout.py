"""Packed weights <-> plain matrices, in the layout that the kernels read (native/linear.h): files load by mapping.

A matrix W float32 [R, C] has R outputs and C inputs. Rows lie in tiles of 16, one row a lane; the last tile is filled
up with zero rows. G = C / 4 groups of four inputs, T = ceil(R / 16) tiles.
2:4     values   bfloat16 as uint16 [T, G, 16, 2], or float32 [T, G, 2, 16]    the two kept weights of a group
        pattern  uint32 [T, ceil(G / 8), 16]                  eight groups a word, four bits a group: two positions 0..3
dense   values   bfloat16 as uint16 [T, C / 2, 16, 2]                           inputs 2k and 2k + 1
Bytes a weight: 2:4 1.125 (bfloat16) or 2.125 (float32), against 2 and 4 dense.
bfloat16 is for matrices whose every weight is such a number, so that unpacking gives back W exactly; -0 becomes 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

TILE, GROUP, KEPT, PATTERN_GROUPS = 16, 4, 2, 8


class PackingError(ValueError):
    """A matrix does not fit the layout; the message says where and why."""


@dataclass(frozen=True)
class Packed24:
    """A 2:4 matrix. values: uint16 (bfloat16 bits) or float32; pattern: uint32; shapes as in the module's text."""

    values: NDArray[Any]
    pattern: NDArray[np.uint32]
    outputs: int
    inputs: int

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.pattern.nbytes


def pack24(weight: Matrix, *, short: bool) -> Packed24:
    """W [R, C] -> values, as bfloat16 if `short`, and positions.

    Raises PackingError where C is no multiple of 4, a group keeps more than two, or a weight is no bfloat16 number.
    """
    outputs, inputs = weight.shape
    if inputs % GROUP:
        raise PackingError(f"{inputs} inputs, expected a multiple of {GROUP}")
    groups = weight.reshape(outputs, inputs // GROUP, GROUP)
    kept = groups != 0
    crowded = np.argwhere(kept.sum(axis=2) > KEPT)
    if len(crowded):
        row, group = (int(n) for n in crowded[0])
        place = f"row {row}, inputs {GROUP * group}..{GROUP * group + GROUP - 1}"
        raise PackingError(f"{place} hold {int(kept[row, group].sum())} weights, expected at most {KEPT} (2:4)")
    # A stable sort moves the kept ones to the front in their order; groups with fewer take zeros along.
    places = np.argsort(~kept, axis=2, kind="stable")[:, :, :KEPT]
    places.sort(axis=2)
    values = np.take_along_axis(groups, places, axis=2) + np.float32(0)  # -0 + 0 = 0
    return Packed24(_tiled_values(values, short), _tiled_pattern(places), outputs, inputs)


def unpack24(packed: Packed24) -> Matrix:
    """The plain matrix, float32 [R, C]."""
    groups = packed.inputs // GROUP
    is_short = packed.values.dtype == np.uint16
    lanes = from_bfloat16(packed.values) if is_short else packed.values.transpose(0, 1, 3, 2)  # [T, G, 16, 2]
    values = lanes.transpose(0, 2, 1, 3).reshape(-1, groups, KEPT)
    places = _places(packed.pattern, groups)
    plain = np.zeros((len(values), groups, GROUP), np.float32)
    np.put_along_axis(plain, places, values, axis=2)
    return plain.reshape(len(values), packed.inputs)[: packed.outputs]


def pack_dense(weight: Matrix) -> NDArray[np.uint16]:
    """W [R, C] -> bfloat16 tiles. Raises PackingError where C is odd or a weight is no bfloat16 number."""
    outputs, inputs = weight.shape
    if inputs % 2:
        raise PackingError(f"{inputs} inputs, expected an even number")
    rows = _whole_tiles(to_bfloat16(weight).reshape(outputs, inputs // 2, 2))
    return np.ascontiguousarray(rows.reshape(-1, TILE, inputs // 2, 2).transpose(0, 2, 1, 3))


def unpack_dense(values: NDArray[np.uint16], outputs: int) -> Matrix:
    """bfloat16 tiles [T, C / 2, 16, 2] -> the plain matrix, float32 [R, C]."""
    tiles, pairs = values.shape[:2]
    return from_bfloat16(values.transpose(0, 2, 1, 3).reshape(tiles * TILE, 2 * pairs)[:outputs])


def fits_bfloat16(numbers: Matrix) -> bool:
    """Is every float32 a bfloat16 number, so that the lower half of its bits is empty?"""
    return not bool((np.ascontiguousarray(numbers).view(np.uint32) & 0xFFFF).any())


def to_bfloat16(numbers: Matrix) -> NDArray[np.uint16]:
    """The upper halves of the bits. Raises PackingError where a lower half is not empty."""
    if not fits_bfloat16(numbers):
        raise PackingError("a weight would change in bfloat16")
    return (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat16(bits: NDArray[np.uint16]) -> Matrix:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _tiled_values(values: Matrix, short: bool) -> NDArray[Any]:
    """[R, G, 2] -> bfloat16 [T, G, 16, 2] or float32 [T, G, 2, 16]."""
    groups = values.shape[1]
    if short:
        bits = _whole_tiles(to_bfloat16(values))
        return np.ascontiguousarray(bits.reshape(-1, TILE, groups, KEPT).transpose(0, 2, 1, 3))
    return np.ascontiguousarray(_whole_tiles(values).reshape(-1, TILE, groups, KEPT).transpose(0, 2, 3, 1))


def _tiled_pattern(places: NDArray[np.int64]) -> NDArray[np.uint32]:
    """[R, G, 2] positions -> [T, ceil(G / 8), 16] words."""
    rows, groups = places.shape[:2]
    blocks = -(-groups // PATTERN_GROUPS)
    nibbles = np.zeros((rows, blocks * PATTERN_GROUPS), np.uint32)
    nibbles[:, :groups] = places[:, :, 0] | places[:, :, 1] << 2
    shifts = np.arange(0, 4 * PATTERN_GROUPS, 4, dtype=np.uint32)
    words = np.bitwise_or.reduce(nibbles.reshape(rows, blocks, PATTERN_GROUPS) << shifts, axis=2)
    return np.ascontiguousarray(_whole_tiles(words).reshape(-1, TILE, blocks).transpose(0, 2, 1))


def _places(pattern: NDArray[np.uint32], groups: int) -> NDArray[np.int64]:
    """Words -> [16 T, G, 2] positions; filled-up rows read 0, 0."""
    words = pattern.transpose(0, 2, 1).reshape(len(pattern) * TILE, -1, 1)
    shifts = np.arange(0, 4 * PATTERN_GROUPS, 4, dtype=np.uint32)
    nibbles = (words >> shifts).reshape(len(words), -1)[:, :groups] & 15
    return np.stack([nibbles & 3, nibbles >> 2], axis=2).astype(np.int64)


def _whole_tiles(rows: NDArray[Any]) -> NDArray[Any]:
    missing = -len(rows) % TILE
    return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]) if missing else rows
