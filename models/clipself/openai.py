"""The image tower in OpenAI's and open_clip's layout, and its dense features; the contract is `eva`'s."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.clipself.config import VisionConfig
from models.clipself.position import Tables, resample_positions
from models.clipself.transformer import ResidualBlock


class OpenAiTower(nn.Module):
    """Patches with learned positions through residual blocks, projected to the joint space."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch = nn.Conv2d(3, config.width, config.patch_size, stride=config.patch_size, bias=False)
        self.leading = nn.Parameter(torch.zeros(config.width))
        self.position = nn.Parameter(torch.zeros(1 + config.grid**2, config.width))
        self.norm_in = nn.LayerNorm(config.width)
        self.blocks = nn.ModuleList(
            ResidualBlock(config.width, config.heads, config.hidden, config.quick_gelu) for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(config.width)
        self.projection = nn.Parameter(torch.zeros(config.width, config.embed_dim))

    def forward(self, pixels: Tensor) -> Tensor:
        """Image embedding [B, E]."""
        x = self.embed(pixels, self.tables(self.grid_of(pixels)))
        for block in self.blocks:
            x = block(x)
        return self.pool(x)

    def dense(self, pixels: Tensor) -> Tensor:
        """Dense map [B, E, h, w], unit norm over E."""
        *_, last = self.layers(pixels, self.tables(self.grid_of(pixels)))
        return self.project(last, self.grid_of(pixels))

    def both(self, pixels: Tensor, tables: Tables) -> tuple[Tensor, Tensor]:
        """Dense map and image embedding, which share all blocks but the last."""
        x = self.embed(pixels, tables)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.project(self.last.value_only(x), self.grid_of(pixels)), self.pool(self.last(x))

    def layers(self, pixels: Tensor, tables: Tables) -> Iterator[Tensor]:
        """The tokens [B, 1 + T, D] after each block, the last one without attention."""
        x = self.embed(pixels, tables)
        for block in self.blocks[:-1]:
            x = block(x)
            yield x
        yield self.last.value_only(x)

    @property
    def last(self) -> ResidualBlock:
        block = self.blocks[-1]
        assert isinstance(block, ResidualBlock)
        return block

    def pool(self, tokens: Tensor) -> Tensor:
        """Last tokens -> image embedding."""
        image: Tensor = self.norm(tokens[:, 0]) @ self.projection
        return image

    def project(self, tokens: Tensor, grid: tuple[int, int]) -> Tensor:
        """Last tokens -> dense map."""
        features = functional.normalize(self.norm(tokens[:, 1:]) @ self.projection, dim=-1)
        return features.transpose(1, 2).reshape(features.shape[0], -1, *grid)

    def embed(self, pixels: Tensor, tables: Tables) -> Tensor:
        """The tokens [B, 1 + T, D] the first block reads."""
        patches = self.patch(pixels).flatten(2).transpose(1, 2)
        leading = self.leading.expand(pixels.shape[0], 1, -1)
        embedded: Tensor = self.norm_in(torch.cat([leading, patches], dim=1) + tables.position)
        return embedded

    def tables(self, grid: tuple[int, int]) -> Tables:
        """Learned positions of a grid."""
        return Tables(resample_positions(self.position, self.config.grid, grid))

    def grid_of(self, pixels: Tensor) -> tuple[int, int]:
        return pixels.shape[2] // self.config.patch_size, pixels.shape[3] // self.config.patch_size
