"""The frozen image tower as a pyramid: four taps at four scales, made into five levels (CLIPSelf, section 3.4)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from models.clipself.clip import build_tower
from models.clipself.fvit.config import FvitConfig
from models.clipself.fvit.layers import ConvBlock
from models.clipself.position import Tables


class Backbone(nn.Module):
    """Pixels [B, 3, H, W] -> four maps at 4, 2, 1 and 1/2 times the patch grid, and the dense map."""

    def __init__(self, config: FvitConfig) -> None:
        super().__init__()
        self.taps, width = config.taps, config.vision.width
        self.visual = build_tower(config.vision)
        self.enlarge4 = nn.Sequential(
            nn.ConvTranspose2d(width, width, 2, stride=2),
            nn.BatchNorm2d(width),
            nn.GELU(),
            nn.ConvTranspose2d(width, width, 2, stride=2),
        )
        self.enlarge2 = nn.ConvTranspose2d(width, width, 2, stride=2)

    def forward(self, pixels: Tensor, tables: Tables | None = None) -> tuple[list[Tensor], Tensor]:
        grid, found = self.visual.grid_of(pixels), []
        for i, tokens in enumerate(self.visual.layers(pixels, tables or self.visual.tables(grid))):
            if i in self.taps:
                found.append(tokens[:, 1:].transpose(1, 2).reshape(tokens.shape[0], -1, *grid))
        dense = self.visual.project(tokens, grid)
        first, second, third, fourth = found
        return [self.enlarge4(first), self.enlarge2(second), third, functional.max_pool2d(fourth, 2)], dense


class Pyramid(nn.Module):
    """Four maps -> five levels of equal width: each level adds the coarser one, enlarged."""

    def __init__(self, config: FvitConfig) -> None:
        super().__init__()
        width, channels = config.vision.width, config.channels
        self.lateral = nn.ModuleList(ConvBlock(width, channels, 1, norm=True, relu=False) for _ in range(4))
        self.smooth = nn.ModuleList(ConvBlock(channels, channels, 3, norm=True, relu=False) for _ in range(4))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        levels = [lateral(one) for lateral, one in zip(self.lateral, maps, strict=True)]
        for i in range(len(levels) - 1, 0, -1):
            larger = functional.interpolate(levels[i], size=levels[i - 1].shape[2:], mode="nearest")
            levels[i - 1] = levels[i - 1] + larger
        made = [smooth(one) for smooth, one in zip(self.smooth, levels, strict=True)]
        return [*made, functional.max_pool2d(made[-1], 1, stride=2)]
