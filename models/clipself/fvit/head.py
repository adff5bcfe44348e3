"""What a proposal shows: detector and CLIP scores, fused, and the box's last correction."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.clipself.fvit.config import FvitConfig
from models.clipself.fvit.layers import ConvBlock, stack_linear, through
from models.clipself.roi_align import roi_align

SIDE = 7  # cells of a proposal's cut-out
FINEST = 56.0  # pixels: proposals up to twice this side are read from the finest level


class BoxHead(nn.Module):
    """Cut-outs of the pyramid [R, C, 7, 7] -> class features [R, E] and box deltas [R, 4]."""

    def __init__(self, config: FvitConfig) -> None:
        super().__init__()
        head, convs = config.head, config.head.convs
        widths = [config.channels, *[config.head_channels] * convs]
        self.convs = nn.ModuleList(
            ConvBlock(inputs, outputs, 3, norm=True, relu=True) for inputs, outputs in pairwise(widths)
        )
        self.shared = stack_linear(head.shared_fcs, widths[-1] * SIDE * SIDE, head.fc_channels)
        self.of_class = stack_linear(head.class_fcs, head.fc_channels, head.fc_channels)
        self.of_box = stack_linear(head.box_fcs, head.fc_channels, head.fc_channels)
        self.delta = nn.Linear(head.fc_channels, 4)
        self.temperature = nn.Parameter(torch.tensor(head.detector_temperature or 0.0))

    def forward(self, cut: Tensor) -> tuple[Tensor, Tensor]:
        for conv in self.convs:
            cut = conv(cut)
        shared = through(self.shared, cut.flatten(1))
        deltas: Tensor = self.delta(through(self.of_box, shared))
        return through(self.of_class, shared), deltas


def cut_out(levels: list[Tensor], strides: tuple[float, ...], boxes: Tensor, image: Tensor) -> Tensor:
    """Each proposal from the level that suits its size: [R, C, 7, 7]."""
    side = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).clamp(min=0).sqrt()
    chosen = torch.floor(torch.log2(side / FINEST + 1e-6)).clamp(0, len(levels) - 1).long()
    cut = boxes.new_zeros(len(boxes), levels[0].shape[1], SIDE, SIDE)
    for i, (level, stride) in enumerate(zip(levels, strides, strict=False)):
        here = (chosen == i).nonzero().squeeze(-1)
        if len(here):
            cut[here] = roi_align(level, boxes[here], image[here], SIDE, scale=1 / stride)
    return cut


def fuse(detector: Tensor, vlm: Tensor, exponents: Tensor) -> Tensor:
    """Both [R, C + 1], each summing to 1 over labels and background; the geometric mean with CLIP's share [C + 1]."""
    return detector ** (1 - exponents) * vlm**exponents


def scores(features: Tensor, labels: Tensor, temperature: Tensor | float) -> Tensor:
    """Softmax over labels [C + 1, E] of temperature x cosine."""
    similarity = functional.normalize(features, dim=-1) @ functional.normalize(labels, dim=-1).T
    return (similarity * temperature).softmax(dim=-1)
