"""Positions on a patch grid of any size: the learned table, resampled; EVA's rotary table, computed.

The official rotary code assumes a square grid and keeps a table per number of tokens, so that a 2 x 8 grid silently
gets the 4 x 4 table. Here each grid has the table its own rows and columns ask for.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

THETA = 10000.0


Rotary = tuple[Tensor, Tensor]  # cosine and sine, each [T, head width]


class Tables(NamedTuple):
    """What a tower needs to know of a grid of T patches: learned positions [1 + T, D], and EVA's rotary tables."""

    position: Tensor
    rotary: Rotary | None = None


def resample_positions(table: Tensor, side: int, grid: tuple[int, int]) -> Tensor:
    """Learned table [1 + side * side, D], class token first -> [1 + rows * columns, D], bicubic."""
    if grid == (side, side):
        return table
    patches = table[1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    resized = functional.interpolate(patches, size=grid, mode="bicubic", align_corners=False)
    return torch.cat([table[:1], resized.permute(0, 2, 3, 1).reshape(grid[0] * grid[1], -1)])


def rotary_table(head_width: int, grid: tuple[int, int], stretched: int) -> Rotary:
    """Cosine and sine [rows * columns, head_width]: half the width turns with the row, half with the column.

    stretched  coordinates run from 0 to this number, whatever the grid
    """
    half = head_width // 2
    frequencies = 1.0 / (THETA ** (torch.arange(0, half, 2)[: half // 2].float() / half))
    angles = [
        (torch.arange(size).float() / size * stretched).unsqueeze(1) * frequencies for size in grid
    ]  # [size, half / 2]
    rows, columns = (one.repeat_interleave(2, dim=-1) for one in angles)
    down = rows.unsqueeze(1).expand(-1, grid[1], -1)
    across = columns.unsqueeze(0).expand(grid[0], -1, -1)
    turned = torch.cat([down, across], dim=-1).reshape(grid[0] * grid[1], head_width)
    return turned.cos(), turned.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn neighbouring pairs of the last axis: x [..., T, d] with tables [T, d]."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    swapped = torch.stack([-pairs[..., 1], pairs[..., 0]], dim=-1).flatten(-2)
    return x * cosine + swapped * sine
