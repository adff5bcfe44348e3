"""Trend and remainder of a window, as DLinear, PatchTST and Autoformer split them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MovingAverage(nn.Module):
    """The trend: a centred moving average over `window` (odd) steps; the ends are continued by their own value."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.side = (window - 1) // 2
        self.pool = nn.AvgPool1d(window, stride=1)

    def forward(self, x: Tensor) -> Tensor:  # [B, L, N] -> [B, L, N]
        first, last = x[:, :1].expand(-1, self.side, -1), x[:, -1:].expand(-1, self.side, -1)
        pooled: Tensor = self.pool(torch.cat([first, x, last], dim=1).transpose(1, 2))
        return pooled.transpose(1, 2)


def apply_each(maps: nn.ModuleList, x: Tensor) -> Tensor:
    """The i-th map on the i-th variate: [B, N, ...] -> [B, N, H]."""
    return torch.stack([one(x[:, i]) for i, one in enumerate(maps)], dim=1)
