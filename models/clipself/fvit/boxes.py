"""Boxes: anchors, corrections, and greedy suppression, as MMDetection 2 defines them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_RATIO_CLIP = abs(math.log(16 / 1000))  # a correction changes a side by no more than this factor


def anchors(grid: tuple[int, int], stride: float, scales: tuple[float, ...], ratios: tuple[float, ...]) -> Tensor:
    """[rows * columns * A, 4]: A = ratios x scales boxes around the corner of every cell."""
    tall = torch.tensor(ratios).sqrt()
    heights = (stride * tall.unsqueeze(1) * torch.tensor(scales)).flatten()
    widths = (stride / tall.unsqueeze(1) * torch.tensor(scales)).flatten()
    base = torch.stack([-widths / 2, -heights / 2, widths / 2, heights / 2], dim=-1)  # [A, 4]
    down, across = (torch.arange(size) * stride for size in grid)
    y, x = torch.meshgrid(down, across, indexing="ij")
    shifts = torch.stack([x, y, x, y], dim=-1).reshape(-1, 1, 4)
    return (shifts + base).reshape(-1, 4)


def correct(boxes: Tensor, deltas: Tensor, stds: tuple[float, ...], limits: tuple[float, float]) -> Tensor:
    """Boxes [R, 4] moved and resized by deltas [R, 4], clipped to limits (height, width)."""
    dx, dy, dw, dh = (deltas * deltas.new_tensor(stds)).unbind(-1)
    x0, y0, x1, y1 = boxes.unbind(-1)
    width, height = x1 - x0, y1 - y0
    x, y = (x0 + x1) * 0.5 + width * dx, (y0 + y1) * 0.5 + height * dy
    half_width = width * dw.clamp(-_RATIO_CLIP, _RATIO_CLIP).exp() * 0.5
    half_height = height * dh.clamp(-_RATIO_CLIP, _RATIO_CLIP).exp() * 0.5
    moved = torch.stack([x - half_width, y - half_height, x + half_width, y + half_height], dim=-1)
    bound = moved.new_tensor([limits[1], limits[0], limits[1], limits[0]])
    return moved.clamp(min=0).minimum(bound)


def suppress(boxes: Tensor, scores: Tensor, groups: Tensor, overlap: float, kept: int) -> Tensor:
    """Indices of what is kept, best first: within a group, a box that overlaps a better one by more than `overlap`
    (intersection over union) is dropped."""
    order = scores.argsort(descending=True, stable=True)
    boxes, groups = boxes[order], groups[order]
    alive = torch.ones(len(order), dtype=torch.bool)
    chosen: list[int] = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for i in range(len(order)):
        if not alive[i]:
            continue
        chosen.append(i)
        if len(chosen) == kept:
            break
        rest = slice(i + 1, None)
        low, high = torch.maximum(boxes[i, :2], boxes[rest, :2]), torch.minimum(boxes[i, 2:], boxes[rest, 2:])
        common = (high - low).clamp(min=0).prod(dim=-1)
        union = area[i] + area[rest] - common
        alive[rest] &= (groups[rest] != groups[i]) | (common <= overlap * union)
    return order[torch.tensor(chosen, dtype=torch.long)]
