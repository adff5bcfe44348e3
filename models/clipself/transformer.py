"""The residual block that OpenAI's image tower and every text tower are made of."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class QuickGelu(nn.Module):
    """x * sigmoid(1.702 x): OpenAI's own checkpoints."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class ResidualBlock(nn.Module):
    """Attention and feed-forward map, a LayerNorm before each; queries, keys and values in one map."""

    def __init__(self, width: int, heads: int, hidden: int, quick_gelu: bool) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)
        self.activation: nn.Module = QuickGelu() if quick_gelu else nn.GELU()

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:  # [B, T, D] -> [B, T, D]
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.reshape(*part.shape[:2], self.heads, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.feed(x + self.out(mixed.transpose(1, 2).flatten(2)))

    def value_only(self, x: Tensor) -> Tensor:
        """The block when every token attends to itself alone."""
        return self.feed(x + self.out(self.qkv(self.norm1(x))[..., 2 * self.width :]))

    def feed(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.contract(self.activation(self.expand(self.norm2(x))))
        return y
