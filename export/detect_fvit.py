"""An F-ViT detector as two graphs; what lies between them is `models.clipself.pipeline.detector`.

vision   pixels and tables as of a CLIP tower -> level0..3 [B, C, *, *], dense [B, E, h, w],
         scores [B, N] in 0..1 and deltas [B, N, 4] of all anchors, level after level
boxes    level0..3, dense, and for each level boxes [R_i, 4] in pixels with their owners [R_i]
         -> labels [R, E] and deltas [R, 4] of the box head, features [R, E] of the dense map, in the levels' order
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from export.detect_graph import flat_tables, vision_example, vision_inputs, write
from export.detect_regions import roi_align
from models.clipself.fvit.head import SIDE, BoxHead
from models.clipself.fvit.network import Fvit

LEVELS = 4
LEAST = 6  # patches of a side the exporter is told of: it takes levels of one cell for constants
LEVEL_NAMES = [f"level{i}" for i in range(LEVELS)]


class DetectorGraph(nn.Module):
    """Backbone, pyramid and proposal network."""

    def __init__(self, network: Fvit) -> None:
        super().__init__()
        self.network = network
        self.first = nn.Parameter(network.backbone.visual.position[:1].clone(), requires_grad=False)

    def forward(
        self, pixels: Tensor, position: Tensor, cosine: Tensor | None = None, sine: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        maps, dense = self.network.backbone(pixels, flat_tables(self.first, position, cosine, sine))
        levels = self.network.pyramid(maps)
        found = self.network.proposals(levels)
        scores, deltas = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        return (*levels[:LEVELS], dense, scores, deltas)


def write_detector(network: Fvit, path: Path) -> None:
    """Raises ConversionError with the exporter's reason."""
    config = network.config.vision
    example, shapes = vision_example(config, LEAST)
    write(
        DetectorGraph(network),
        example,
        shapes,
        vision_inputs(config),
        [*LEVEL_NAMES, "dense", "scores", "deltas"],
        path,
    )


class BoxGraph(nn.Module):
    """The box head with its cut-outs. scales: cells a pixel of each level, then of the dense map."""

    def __init__(self, head: BoxHead, scales: tuple[float, ...]) -> None:
        super().__init__()
        self.head, self.scales = head, scales

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        levels, dense, boxes, owners = tensors[:4], tensors[4], tensors[5:9], tensors[9:13]
        cut = torch.cat(
            [
                roi_align(level, box, owner, SIDE, scale)
                for level, box, owner, scale in zip(levels, boxes, owners, self.scales[:4], strict=True)
            ]
        )
        labels, deltas = self.head(cut)
        features = roi_align(dense, torch.cat(boxes), torch.cat(owners), 1, self.scales[4]).flatten(1)
        return labels, deltas, features


def write_boxes(network: Fvit, path: Path) -> None:
    """Raises ConversionError with the exporter's reason."""
    config, dim = network.config, torch.export.Dim
    batch, generator = dim("batch", min=1), torch.Generator().manual_seed(0)
    sizes = [(16, 24), (8, 12), (4, 6), (2, 3)]
    levels = [torch.randn(2, config.channels, *size, generator=generator) for size in sizes]
    dense = torch.randn(2, config.vision.embed_dim, 4, 6, generator=generator)
    boxes = [torch.rand(3 + i, 4, generator=generator) for i in range(LEVELS)]
    owners = [torch.zeros(3 + i, dtype=torch.int64) for i in range(LEVELS)]
    counts = [dim(f"boxes{i}", min=0) for i in range(LEVELS)]
    maps = [{0: batch, 2: dim(f"rows{i}", min=1), 3: dim(f"columns{i}", min=1)} for i in range(LEVELS + 1)]
    by_count = [{0: count} for count in counts]
    shapes: Any = ((*maps, *by_count, *by_count),)
    names = [*LEVEL_NAMES, "dense"]
    names += [f"boxes{i}" for i in range(LEVELS)] + [f"owner{i}" for i in range(LEVELS)]
    scales = (*(1 / stride for stride in config.strides[:LEVELS]), 1 / config.vision.patch_size)
    example = (*levels, dense, *boxes, *owners)
    write(BoxGraph(network.head, scales), example, shapes, names, ["labels", "deltas", "features"], path)
