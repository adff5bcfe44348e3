"""Where something is, whatever it is: the region proposal network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.clipself.fvit.boxes import anchors, correct, suppress
from models.clipself.fvit.config import FvitConfig
from models.clipself.fvit.layers import ConvBlock


class ProposalNetwork(nn.Module):
    """Five levels -> proposals of each image."""

    def __init__(self, config: FvitConfig) -> None:
        super().__init__()
        self.config = config
        boxes, channels = len(config.scales) * len(config.ratios), config.channels
        self.convs = nn.ModuleList(
            ConvBlock(channels, channels, 3, norm=config.proposals.norm, relu=True)
            for _ in range(config.proposals.convs)
        )
        self.score = nn.Conv2d(channels, boxes, 1)
        self.delta = nn.Conv2d(channels, 4 * boxes, 1)

    def forward(self, levels: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """For each level, objectness [B, P] in 0..1 and deltas [B, P, 4]; P in the order of the anchors."""
        found = []
        for level in levels:
            for conv in self.convs:
                level = conv(level)
            score = self.score(level).permute(0, 2, 3, 1).flatten(1).sigmoid()
            found.append((score, self.delta(level).permute(0, 2, 3, 1).reshape(level.shape[0], -1, 4)))
        return found

    def select(
        self, found: list[tuple[Tensor, Tensor]], grids: list[tuple[int, int]], image: int, valid: tuple[int, int]
    ) -> Tensor:
        """Proposals of one image [P, 5]: box in pixels, clipped to the valid height and width, and objectness."""
        rules = self.config.proposals
        boxes, scores, groups = [], [], []
        for i, ((score, delta), grid, stride) in enumerate(zip(found, grids, self.config.strides, strict=True)):
            order = score[image].argsort(descending=True, stable=True)[: rules.per_level]
            around = anchors(grid, stride, self.config.scales, self.config.ratios)[order]
            boxes.append(correct(around, delta[image][order], rules.stds, valid))
            scores.append(score[image][order])
            groups.append(torch.full_like(order, i))
        box, score, group = torch.cat(boxes), torch.cat(scores), torch.cat(groups)
        real = ((box[:, 2:] - box[:, :2]) > 0).all(dim=-1)
        box, score, group = box[real], score[real], group[real]
        kept = suppress(box, score, group, rules.overlap, rules.kept)
        return torch.cat([box[kept], score[kept].unsqueeze(-1)], dim=-1)
