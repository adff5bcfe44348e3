"""F-ViT: detection of any labels on a frozen CLIP tower (Wu et al., CLIPSelf, ICLR 2024, section 3.4).

In   pixels      float32 [B, 3, S, S]   normalised as F-ViT wants them (`image.fvit_pixels`)
     labels      float32 [C + 1, E]     label embeddings, the background's last
     base        bool [C + 1]           trained labels and the background; ignored by transfer heads
     valid       (height, width) of each image before padding; factors [4] of its resizing
Out  detections  float32 [D, 5]         x0, y0, x1, y1 in pixels of the original image, score; label int64 [D]
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.clipself.fvit.backbone import Backbone, Pyramid
from models.clipself.fvit.boxes import correct, suppress
from models.clipself.fvit.config import FvitConfig
from models.clipself.fvit.head import BoxHead, cut_out, fuse, scores
from models.clipself.fvit.proposals import ProposalNetwork
from models.clipself.roi_align import roi_align


class Detections(NamedTuple):
    """boxes float32 [D, 5] with the score last, best first; labels int64 [D]."""

    boxes: Tensor
    labels: Tensor


class Judged(NamedTuple):
    """Proposals of one image with what the head says of them."""

    proposals: Tensor  # [P, 5]
    scores: Tensor  # [P, C + 1], fused
    deltas: Tensor  # [P, 4]
    vlm_features: Tensor  # [P, E], of the dense map, not normalised


class Fvit(nn.Module):
    """Backbone, pyramid, proposals, head."""

    def __init__(self, config: FvitConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config)
        self.pyramid = Pyramid(config)
        self.proposals = ProposalNetwork(config)
        self.head = BoxHead(config)

    def judge(self, pixels: Tensor, labels: Tensor, base: Tensor, valid: list[tuple[int, int]]) -> list[Judged]:
        """Proposals and their scores, one entry an image."""
        maps, dense = self.backbone(pixels)
        levels = self.pyramid(maps)
        found, grids = self.proposals(levels), [(one.shape[2], one.shape[3]) for one in levels]
        return [
            self._judge_one(levels, dense, i, self.proposals.select(found, grids, i, size), labels, base)
            for i, size in enumerate(valid)
        ]

    def _judge_one(
        self, levels: list[Tensor], dense: Tensor, i: int, proposals: Tensor, labels: Tensor, base: Tensor
    ) -> Judged:
        boxes = proposals[:, :4]
        image = torch.full((len(boxes),), i, dtype=torch.long)
        features, deltas = self.head(cut_out(levels[:4], self.config.strides, boxes, image))
        vlm_features = roi_align(dense, boxes, image, 1, scale=1 / self.config.vision.patch_size).flatten(1)
        detector = scores(features, labels, self.head.temperature)
        vlm = scores(vlm_features, labels, self.config.head.vlm_temperature)
        return Judged(proposals, fuse(detector, vlm, self.exponents(base)), deltas, vlm_features)

    def exponents(self, base: Tensor) -> Tensor:
        """CLIP's share in the score of each label [C + 1]."""
        head = self.config.head
        if head.transfer:
            return torch.full((len(base),), head.alpha)
        return torch.where(base.bool(), head.alpha, head.beta)

    def select(self, judged: Judged, valid: tuple[int, int], factors: Tensor) -> Detections:
        """Score threshold, suppression within each label, the best few; boxes in pixels of the original image."""
        rules = self.config.selection
        boxes = correct(judged.proposals[:, :4], judged.deltas, rules.stds, valid) / factors
        found = judged.scores[:, :-1]
        rows, label = (found > rules.threshold).nonzero(as_tuple=True)
        box, score = boxes[rows], found[rows, label]
        kept = suppress(box, score, label, rules.overlap, rules.kept)
        return Detections(torch.cat([box[kept], score[kept].unsqueeze(-1)], dim=-1), label[kept])


def build(config: FvitConfig) -> Fvit:
    """An untrained detector in evaluation mode, ready for `load_state_dict`."""
    return Fvit(config).eval().requires_grad_(False)
