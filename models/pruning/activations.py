"""What calibration tells about a layer's inputs, gathered while sequences pass.

In   inputs  float [T, C] one sequence, or [B, T, C] several; T tokens, C input channels
Out  energy  float32 [C]     mean over sequences of the squared L2 norm over tokens: ||x||^2 of Wanda and RIA
     gram    float32 [C, C]  mean over sequences of 2 x^T x: the Hessian of the squared output error
Both are running means in float32, updated a sequence batch at a time as the official program does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class InputStatistics:
    """Running means over the sequences seen; `gram` costs C * C numbers and is kept only if asked for."""

    def __init__(self, channels: int, *, with_gram: bool = False) -> None:
        self.sequences = 0
        self.energy = torch.zeros(channels)
        self.gram = torch.zeros(channels, channels) if with_gram else None

    def add(self, inputs: Tensor) -> None:
        batch = 1 if inputs.ndim == 2 else inputs.shape[0]
        x = inputs.detach().reshape(-1, inputs.shape[-1]).to("cpu", torch.float32)  # [B * T, C]
        faded = self.sequences / (self.sequences + batch)
        self.sequences += batch
        self.energy = self.energy * faded + x.norm(dim=0) ** 2 / self.sequences
        if self.gram is not None:
            scaled = x * math.sqrt(2 / self.sequences)
            self.gram = self.gram * faded + scaled.T @ scaled
