"""Packed weights <-> plain matrices, in the layout that the kernels read (native/linear.h): files load by mapping.

A matrix W float32 [R, C] has R outputs and C inputs. Rows lie in tiles of 16, one row a lane; the last tile is filled
up with zero rows. T = ceil(R / 16) tiles, B = ceil(C / 32) blocks of eight groups of four inputs.
2:4     records  uint8 [T, B, 576 or 1088], each
                 positions  uint32 [16]        four bits a group: two positions 0..3, the first in the low bits
                 values     bfloat16 [8, 16, 2] or float32 [8, 2, 16]       the two kept weights of a group
        One record after the other is what the kernel reads: memory is the limit, and one stream is the fastest.
dense   values   bfloat16 as uint16 [T, C / 2, 16, 2]                       inputs 2k and 2k + 1
Bytes a weight: 2:4 1.125 (bfloat16) or 2.125 (float32), against 2 and 4 dense.
bfloat16 is for matrices whose every weight is such a number, so that unpacking gives back W exactly; -0 becomes 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

Records = NDArray[np.uint8]
Short = NDArray[np.uint16]  # bits of bfloat16

TILE, GROUP, KEPT, BLOCK = 16, 4, 2, 8
POSITION_BYTES = 4 * TILE
SHORT_RECORD, LONG_RECORD = (POSITION_BYTES + BLOCK * TILE * KEPT * size for size in (2, 4))
_SHIFTS = np.arange(0, 4 * BLOCK, 4, dtype=np.uint32)


class PackingError(ValueError):
    """A matrix does not fit the layout; the message says where and why."""


def pack24(weight: Matrix, *, short: bool) -> Records:
    """W [R, C] -> records, with values in bfloat16 if `short`.

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
    positions = _positions(_whole(places.astype(np.uint32), TILE, BLOCK))
    numbers = _values(_whole(values, TILE, BLOCK), short)
    return np.concatenate([positions.view(np.uint8), numbers.view(np.uint8)], axis=2)


def unpack24(records: Records, outputs: int, inputs: int) -> Matrix:
    """The plain matrix, float32 [R, C]."""
    tiles, blocks, size = records.shape
    words = np.ascontiguousarray(records[:, :, :POSITION_BYTES]).view(np.uint32)  # [T, B, 16]
    numbers = np.ascontiguousarray(records[:, :, POSITION_BYTES:])
    if size == SHORT_RECORD:
        values = from_bfloat16(numbers.view(np.uint16)).reshape(tiles, blocks, BLOCK, TILE, KEPT)
    else:
        values = numbers.view(np.float32).reshape(tiles, blocks, BLOCK, KEPT, TILE).transpose(0, 1, 2, 4, 3)
    nibbles = words[:, :, None, :] >> _SHIFTS[:, None] & 15  # [T, B, 8, 16]
    places = np.stack([nibbles & 3, nibbles >> 2], axis=-1).astype(np.int64)
    plain = np.zeros((tiles, blocks, BLOCK, TILE, GROUP), np.float32)
    np.put_along_axis(plain, places, values, axis=4)
    return plain.transpose(0, 3, 1, 2, 4).reshape(tiles * TILE, -1)[:outputs, :inputs]


def pack_dense(weight: Matrix) -> Short:
    """W [R, C] -> bfloat16 tiles. Raises PackingError where C is odd or a weight is no bfloat16 number."""
    outputs, inputs = weight.shape
    if inputs % 2:
        raise PackingError(f"{inputs} inputs, expected an even number")
    rows = _whole(to_bfloat16(weight).reshape(outputs, inputs // 2, 2), TILE, 1)
    return np.ascontiguousarray(rows.reshape(-1, TILE, inputs // 2, 2).transpose(0, 2, 1, 3))


def unpack_dense(values: Short, outputs: int) -> Matrix:
    """bfloat16 tiles [T, C / 2, 16, 2] -> the plain matrix, float32 [R, C]."""
    tiles, pairs = values.shape[:2]
    return from_bfloat16(values.transpose(0, 2, 1, 3).reshape(tiles * TILE, 2 * pairs)[:outputs])


def fits_bfloat16(numbers: Matrix) -> bool:
    """Is every float32 a bfloat16 number, so that the lower half of its bits is empty?"""
    return not bool((np.ascontiguousarray(numbers).view(np.uint32) & 0xFFFF).any())


def to_bfloat16(numbers: Matrix) -> Short:
    """The upper halves of the bits. Raises PackingError where a lower half is not empty."""
    if not fits_bfloat16(numbers):
        raise PackingError("a weight would change in bfloat16")
    return (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat16(bits: Short) -> Matrix:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _positions(places: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """[16 T, 8 B, 2] -> a word a lane [T, B, 16]."""
    nibbles = (places[:, :, 0] | places[:, :, 1] << 2).reshape(-1, TILE, places.shape[1] // BLOCK, BLOCK)
    words = np.bitwise_or.reduce(nibbles << _SHIFTS, axis=3)
    return np.ascontiguousarray(words.transpose(0, 2, 1))


def _values(values: Matrix, short: bool) -> NDArray[Any]:
    """[16 T, 8 B, 2] -> [T, B, numbers of a record]."""
    blocks = values.shape[1] // BLOCK
    lanes = (to_bfloat16(values) if short else values).reshape(-1, TILE, blocks, BLOCK, KEPT)
    laid = lanes.transpose(0, 2, 3, 1, 4) if short else lanes.transpose(0, 2, 3, 4, 1)
    return np.ascontiguousarray(laid).reshape(len(laid), blocks, -1)


def _whole(rows: NDArray[Any], of_rows: int, of_columns: int) -> NDArray[Any]:
    """[R, G, 2] with zeros behind, up to multiples of the two."""
    return np.pad(rows, [(0, -rows.shape[0] % of_rows), (0, -rows.shape[1] % of_columns), (0, 0)])
