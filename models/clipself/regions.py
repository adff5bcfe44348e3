"""Regions of a dense map: their features, and how well labels fit them (CLIPSelf, section 3.1).

Letters: B images, E embedding, h x w grid, R boxes or masks, C labels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from models.clipself.roi_align import roi_align


def box_features(dense: Tensor, boxes: Tensor, image: Tensor) -> Tensor:
    """Mean feature of each box [R, E], not normalised.

    dense  float32 [B, E, h, w], unit norm over E
    boxes  float32 [R, 4]: x0, y0, x1, y1 as fractions 0..1 of the network's input
    image  int64 [R]
    """
    rows, columns = dense.shape[2:]
    cells = boxes * boxes.new_tensor([columns, rows, columns, rows])
    return roi_align(dense, cells, image, 1).flatten(1)


def mask_features(dense: Tensor, masks: Tensor, image: Tensor) -> Tensor:
    """Mean feature of each mask [R, E], unit norm; masks float32 [R, h, w], a cell counts where its mask is > 0.

    A mask without a cell has no feature: its row is zero.
    """
    kept = (masks > 0).to(dense)
    total = torch.einsum("rechw->rec", (dense[image] * kept.unsqueeze(1)).unsqueeze(2)).squeeze(-1)
    return functional.normalize(total / kept.sum(dim=(1, 2)).clamp(min=1).unsqueeze(-1), dim=-1)


def cosine(features: Tensor, labels: Tensor) -> Tensor:
    """[R, E] and [C, E], neither need be normalised -> [R, C] in -1..1: what regions are ranked by."""
    return functional.normalize(features, dim=-1) @ functional.normalize(labels, dim=-1).T


def probabilities(similarity: Tensor, logit_scale: Tensor) -> Tensor:
    """Softmax over labels of exp(logit_scale) * cosine."""
    return (similarity * logit_scale.exp()).softmax(dim=-1)


def dense_cosine(dense: Tensor, labels: Tensor) -> Tensor:
    """[B, E, h, w] and [C, E] -> [B, C, h, w] in -1..1."""
    return torch.einsum("behw,ce->bchw", functional.normalize(dense, dim=1), functional.normalize(labels, dim=-1))
