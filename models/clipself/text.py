"""The text tower: a causal transformer read at the end token.

In   ids   int64 [B, T]     T <= context_length; start token, text, end token, zeros
Out  text  float32 [B, E]   not normalised
The end token has the largest id of its row; of several, the first counts: a literal end token inside a text cuts it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.clipself.config import TextConfig
from models.clipself.transformer import ResidualBlock


class TextTower(nn.Module):
    """Token and position embeddings through causal residual blocks, projected to the joint space."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Parameter(torch.zeros(config.context_length, config.width))
        self.blocks = nn.ModuleList(
            ResidualBlock(config.width, config.heads, 4 * config.width, config.quick_gelu) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.projection = nn.Parameter(torch.zeros(config.width, config.embed_dim))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.position[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, causal=True)
        end = ids.argmax(dim=-1, keepdim=True).unsqueeze(-1).expand(-1, -1, x.shape[-1])
        text: Tensor = self.norm(x).gather(1, end).squeeze(1) @ self.projection
        return text


def join(embeddings: Tensor) -> Tensor:
    """Embeddings of a label's prompts [..., P, E] -> one embedding [..., E], unit norm: each normalised, their mean
    normalised again."""
    return functional.normalize(functional.normalize(embeddings, dim=-1).mean(dim=-2), dim=-1)
