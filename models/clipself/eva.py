"""The EVA-02 image tower and its dense features (Wu et al., CLIPSelf, ICLR 2024, section 3.1).

In   pixels  float32 [B, 3, H, W]   normalised; H and W whole multiples of the patch size
Out  image   float32 [B, E]         the class token's embedding, not normalised
     dense   float32 [B, E, h, w]   unit norm over E; h = H / patch, w = W / patch
Dense features skip the last block's attention: every patch keeps its own value.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.clipself.config import VisionConfig
from models.clipself.position import Rotary, Tables, resample_positions, rotary_table, rotate

EPS = 1e-6


class Attention(nn.Module):
    """Multi-head attention with rotary positions on patches, a norm before the output map, no bias on keys."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.heads, width = config.heads, config.width
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=EPS)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:  # [B, 1 + T, D] -> the same
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        q, k = self.turn(q, *rotary), self.turn(k, *rotary)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        joined: Tensor = self.out(self.norm(mixed.transpose(1, 2).flatten(2)))
        return joined

    def value_only(self, x: Tensor) -> Tensor:
        """What is left when every token attends to itself alone."""
        kept: Tensor = self.out(self.norm(self.value(x)))
        return kept

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def turn(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        return torch.cat([x[:, :, :1], rotate(x[:, :, 1:], cosine, sine)], dim=2)


class SwiGlu(nn.Module):
    """Gated feed-forward map with a norm inside."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden)
        self.expand = nn.Linear(config.width, config.hidden)
        self.norm = nn.LayerNorm(config.hidden, eps=EPS)
        self.contract = nn.Linear(config.hidden, config.width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.contract(self.norm(functional.silu(self.gate(x)) * self.expand(x)))
        return y


class Block(nn.Module):
    """Attention and feed-forward map, a norm before each."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(config.width, eps=EPS) for _ in range(2))
        self.attention = Attention(config)
        self.mlp = SwiGlu(config)

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:
        x = x + self.attention(self.norm1(x), rotary)
        y: Tensor = x + self.mlp(self.norm2(x))
        return y

    def value_only(self, x: Tensor) -> Tensor:
        x = x + self.attention.value_only(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class EvaTower(nn.Module):
    """Patches with learned and rotary positions through blocks, projected to the joint space."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch = nn.Conv2d(3, config.width, config.patch_size, stride=config.patch_size)
        self.leading = nn.Parameter(torch.zeros(1, 1, config.width))
        self.position = nn.Parameter(torch.zeros(1 + config.grid**2, config.width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=EPS)
        self.head = nn.Linear(config.width, config.embed_dim)

    def forward(self, pixels: Tensor) -> Tensor:
        """Image embedding [B, E]."""
        x, rotary = self.embed(pixels, self.tables(self.grid_of(pixels)))
        for block in self.blocks:
            x = block(x, rotary)
        return self.pool(x)

    def dense(self, pixels: Tensor) -> Tensor:
        """Dense map [B, E, h, w], unit norm over E."""
        *_, last = self.layers(pixels, self.tables(self.grid_of(pixels)))
        return self.project(last, self.grid_of(pixels))

    def both(self, pixels: Tensor, tables: Tables) -> tuple[Tensor, Tensor]:
        """Dense map and image embedding, which share all blocks but the last."""
        x, rotary = self.embed(pixels, tables)
        for block in self.blocks[:-1]:
            x = block(x, rotary)
        last = self.last
        image = self.pool(last(x, rotary))
        return self.project(last.value_only(x), self.grid_of(pixels)), image

    def layers(self, pixels: Tensor, tables: Tables) -> Iterator[Tensor]:
        """The tokens [B, 1 + T, D] after each block, the last one without attention."""
        x, rotary = self.embed(pixels, tables)
        for block in self.blocks[:-1]:
            x = block(x, rotary)
            yield x
        yield self.last.value_only(x)

    @property
    def last(self) -> Block:
        block = self.blocks[-1]
        assert isinstance(block, Block)
        return block

    def pool(self, tokens: Tensor) -> Tensor:
        """Last tokens -> image embedding."""
        image: Tensor = self.head(self.norm(tokens)[:, 0])
        return image

    def project(self, tokens: Tensor, grid: tuple[int, int]) -> Tensor:
        """Last tokens -> dense map."""
        features = functional.normalize(self.head(self.norm(tokens[:, 1:])), dim=-1)
        return features.transpose(1, 2).reshape(features.shape[0], -1, *grid)

    def embed(self, pixels: Tensor, tables: Tables) -> tuple[Tensor, Rotary]:
        """The tokens [B, 1 + T, D] the first block reads, and how all blocks turn them."""
        assert tables.rotary is not None
        patches = self.patch(pixels).flatten(2).transpose(1, 2)
        leading = self.leading.expand(pixels.shape[0], -1, -1)
        return torch.cat([leading, patches], dim=1) + tables.position, tables.rotary

    def tables(self, grid: tuple[int, int]) -> Tables:
        """Learned and rotary positions of a grid."""
        position = resample_positions(self.position, self.config.grid, grid)
        cosine, sine = rotary_table(self.config.head_width, grid, self.config.pretrained_grid)
        return Tables(position, (cosine.to(position), sine.to(position)))

    def grid_of(self, pixels: Tensor) -> tuple[int, int]:
        return pixels.shape[2] // self.config.patch_size, pixels.shape[3] // self.config.patch_size
