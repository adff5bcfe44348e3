"""F-ViT between and behind its graphs, in numpy: proposals from what it says of each anchor, fusion, selection.

The same arithmetic as `models.clipself.fvit`, which says where it comes from. Letters: P proposals, C labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.scoring import cosine, softmax
from models.clipself.pipeline.spec import DetectorSpec, Fusion
from models.clipself.pipeline.suppression import suppress
from models.clipself.pipeline.windows import Found

Array = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Grid = tuple[int, int]

FINEST = 56.0  # pixels: proposals up to twice this side are read from the finest level
_RATIO_CLIP = abs(math.log(16 / 1000))


def level_grids(grid: Grid) -> list[Grid]:
    """Rows and columns of the five levels over a patch grid."""
    rows, columns = grid
    coarse = (rows // 2, columns // 2)
    last = ((coarse[0] + 1) // 2, (coarse[1] + 1) // 2)
    return [(4 * rows, 4 * columns), (2 * rows, 2 * columns), grid, coarse, last]


def anchors(grid: Grid, stride: float, scales: tuple[float, ...], ratios: tuple[float, ...]) -> Array:
    """[rows * columns * A, 4]: A = ratios x scales boxes around the corner of every cell."""
    tall = np.sqrt(np.array(ratios, dtype=np.float32))[:, None]
    sizes = np.array(scales, dtype=np.float32)
    heights, widths = (stride * tall * sizes).ravel(), (stride / tall * sizes).ravel()
    base = np.stack([-widths / 2, -heights / 2, widths / 2, heights / 2], axis=-1)
    y, x = (at * np.float32(stride) for at in np.indices(grid, dtype=np.float32))
    shifts = np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4)
    around: Array = (shifts + base).reshape(-1, 4).astype(np.float32)
    return around


def correct(boxes: Array, deltas: Array, stds: tuple[float, ...], limits: Grid) -> Array:
    """Boxes [R, 4] moved and resized by deltas [R, 4], clipped to limits (height, width)."""
    dx, dy, dw, dh = (deltas * np.array(stds, dtype=np.float32)).T
    x0, y0, x1, y1 = boxes.T
    width, height = x1 - x0, y1 - y0
    x, y = (x0 + x1) * np.float32(0.5) + width * dx, (y0 + y1) * np.float32(0.5) + height * dy
    half_width = width * np.exp(np.clip(dw, -_RATIO_CLIP, _RATIO_CLIP)) * np.float32(0.5)
    half_height = height * np.exp(np.clip(dh, -_RATIO_CLIP, _RATIO_CLIP)) * np.float32(0.5)
    moved = np.stack([x - half_width, y - half_height, x + half_width, y + half_height], axis=-1)
    bound = np.array([limits[1], limits[0], limits[1], limits[0]], dtype=np.float32)
    inside: Array = np.clip(moved, 0, bound).astype(np.float32)
    return inside


class Proposer:
    """Proposals of one image from the scores and deltas of all anchors, level after level."""

    def __init__(self, spec: DetectorSpec) -> None:
        self._spec = spec

    def __call__(self, scores: Array, deltas: Array, grid: Grid, valid: Grid) -> Array:
        """scores [N], deltas [N, 4] of a patch grid -> boxes [P, 4] in network pixels."""
        spec, per_cell = self._spec, len(self._spec.scales) * len(self._spec.ratios)
        boxes, kept_scores, groups, first = [], [], [], 0
        for i, (cells, stride) in enumerate(zip(level_grids(grid), spec.strides, strict=True)):
            here = slice(first, first + cells[0] * cells[1] * per_cell)
            first = here.stop
            order = np.argsort(-scores[here], kind="stable")[: spec.per_level]
            around = anchors(cells, stride, spec.scales, spec.ratios)[order]
            boxes.append(correct(around, deltas[here][order], spec.proposal_stds, valid))
            kept_scores.append(scores[here][order])
            groups.append(np.full(len(order), i, dtype=np.int64))
        box, score, group = np.concatenate(boxes), np.concatenate(kept_scores), np.concatenate(groups)
        real = ((box[:, 2:] - box[:, :2]) > 0).all(axis=1)
        box, score, group = box[real], score[real], group[real]
        return box[suppress(box, score, group, spec.proposal_overlap, spec.proposals)]


def levels_of(boxes: Array) -> Indices:
    """Which of the four finer levels each proposal is read from."""
    side = np.sqrt(np.maximum((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), 0))
    return np.clip(np.floor(np.log2(side / np.float32(FINEST) + np.float32(1e-6))), 0, 3).astype(np.int64)


@dataclass(frozen=True)
class Judged:
    """What the box head and the dense map say of the proposals of one image."""

    proposals: Array  # [P, 4], network pixels
    labels: Array  # [P, E], the box head's
    deltas: Array  # [P, 4]
    features: Array  # [P, E], the dense map's


def fuse(judged: Judged, embeddings: Array, base: npt.NDArray[np.bool_], fusion: Fusion) -> Array:
    """Scores [P, C + 1]. embeddings [C + 1, E], the background's last; base [C + 1]: seen in training."""
    detector = softmax(cosine(judged.labels, embeddings) * np.float32(fusion.temperature))
    vlm = softmax(cosine(judged.features, embeddings) * np.float32(fusion.vlm_temperature))
    share = np.where(base, np.float32(fusion.base), np.float32(fusion.novel))
    joined: Array = detector ** (1 - share) * vlm**share
    return joined


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a caller wants of an image's detections. thresholds float32 [C]."""

    thresholds: Array
    overlap: float
    kept: int
    agnostic: bool


def select(
    spec: DetectorSpec, judged: Judged, scores: Array, valid: Grid, factors: tuple[float, float], wanted: Selection
) -> Found:
    """Corrected boxes in original pixels, thresholds, suppression within each label (or among all), the best few."""
    fx, fy = factors
    corrected = correct(judged.proposals, judged.deltas, spec.stds, valid)
    boxes = np.divide(corrected, np.array([fx, fy, fx, fy], dtype=np.float32))
    found = scores[:, :-1]
    rows, labels = np.nonzero(found > wanted.thresholds)
    box, score = boxes[rows], found[rows, labels]
    groups = np.zeros_like(labels) if wanted.agnostic else labels
    kept = suppress(box, score, groups, wanted.overlap, wanted.kept)
    return Found(box[kept], score[kept], labels[kept])
