"""Positions on a patch grid of any size, in numpy: the learned table resampled as torch does, EVA's rotary table.

A grid's tables are made once and kept, for as many grids as are named: the official program asserts at the sixth.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Grid = tuple[int, int]  # rows, columns

THETA = 10000.0
SHARPNESS = -0.75  # of the cubic kernel
KEPT = 16  # grids


class PositionTables:
    """Tables of one image tower.

    learned     float32 [1 + side * side, D], the class token first
    head_width  of EVA's rotary tables; None for towers that have none
    stretched   coordinates of a grid run from 0 to this number
    """

    def __init__(self, learned: Array, head_width: int | None, stretched: int, kept: int = KEPT) -> None:
        side = round((len(learned) - 1) ** 0.5)
        self._patches = learned[1:].reshape(side, side, -1)
        self._head_width, self._stretched, self._kept = head_width, stretched, kept
        self._made: OrderedDict[Grid, dict[str, Array]] = OrderedDict()
        self._lock = Lock()

    def of(self, grid: Grid) -> dict[str, Array]:
        """`position` float32 [rows, columns, D], and EVA's `cosine` and `sine` [rows, columns, head_width]."""
        with self._lock:
            found = self._made.get(grid)
            if found is None:
                found = self._made[grid] = self._make(grid)
                if len(self._made) > self._kept:
                    self._made.popitem(last=False)
            self._made.move_to_end(grid)
            return found

    def __len__(self) -> int:
        return len(self._made)

    def _make(self, grid: Grid) -> dict[str, Array]:
        tables = {"position": resample(self._patches, grid)}
        if self._head_width is not None:
            tables["cosine"], tables["sine"] = rotary(self._head_width, grid, self._stretched)
        return tables


def resample(patches: Array, grid: Grid) -> Array:
    """[side, side, D] -> [rows, columns, D], bicubic, pixel centres aligned (align_corners=False)."""
    if patches.shape[:2] == grid:
        return patches
    down, across = (cubic(size, cells) for size, cells in zip(grid, patches.shape[:2], strict=True))
    taller = np.tensordot(down, patches.astype(np.float64), axes=(1, 0))
    return np.ascontiguousarray(np.einsum("wj,hjd->hwd", across, taller), dtype=np.float32)


def cubic(size: int, cells: int) -> npt.NDArray[np.float64]:
    """[size, cells]: what each old cell adds to each new one; cells beyond the border are the border's."""
    at = (np.arange(size) + 0.5) * (cells / size) - 0.5
    low = np.floor(at).astype(np.int64)
    part = at - low
    weights = np.zeros((size, cells))
    for step in (-1, 0, 1, 2):
        cell = np.clip(low + step, 0, cells - 1)
        np.add.at(weights, (np.arange(size), cell), _kernel(np.abs(part - step)))
    return weights


def _kernel(distance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    near = ((SHARPNESS + 2) * distance - (SHARPNESS + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * SHARPNESS - 4 * SHARPNESS
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def rotary(head_width: int, grid: Grid, stretched: int) -> tuple[Array, Array]:
    """Cosine and sine [rows, columns, head_width]: half the width turns with the row, half with the column."""
    half = head_width // 2
    frequencies = np.float32(1) / (THETA ** (np.arange(0, half, 2, dtype=np.float32) / np.float32(half)))
    rows, columns = (
        np.repeat((np.arange(size, dtype=np.float32) / size * stretched)[:, None] * frequencies, 2, axis=1)
        for size in grid
    )
    angles = np.concatenate(
        [np.broadcast_to(rows[:, None], (*grid, half)), np.broadcast_to(columns[None], (*grid, half))], axis=-1
    ).astype(np.float32)
    return np.cos(angles), np.sin(angles)
