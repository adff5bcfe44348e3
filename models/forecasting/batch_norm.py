"""BatchNorm as a forecaster in evaluation mode needs it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ChannelNorm(nn.Module):
    """BatchNorm over the last axis with stored statistics: (x - mean) / sqrt(var + eps) * weight + bias."""

    EPS = 1e-5
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:  # [..., D] -> [..., D]
        scale = self.weight / torch.sqrt(self.running_var + self.EPS)
        return x * scale + (self.bias - self.running_mean * scale)
