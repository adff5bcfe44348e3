"""Non-maximum suppression: greedy, as detectors use it, and soft, for windows that overlap by construction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

SIGMA = 0.5  # of Soft-NMS's Gaussian


def overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box [4] with others [N, 4]; 0 where both are empty."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.maximum(high - low, 0).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    share: Array = common / np.maximum(areas - common, np.float32(1e-12))
    return share


def suppress(boxes: Array, scores: Array, groups: Indices, overlap: float, kept: int) -> Indices:
    """Indices of what is kept, best first: within a group, a box that overlaps a better one by more is dropped.

    Of equal scores the first comes first. The rule is common > overlap * union, as MMCV compares.
    """
    order = np.argsort(-scores, kind="stable")
    boxes, groups = boxes[order], groups[order]
    alive = np.ones(len(order), dtype=bool)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    chosen: list[int] = []
    for i in range(len(order)):
        if not alive[i]:
            continue
        chosen.append(i)
        if len(chosen) == kept:
            break
        rest = slice(i + 1, None)
        low, high = np.maximum(boxes[i, :2], boxes[rest, :2]), np.minimum(boxes[i, 2:], boxes[rest, 2:])
        common = np.maximum(high - low, 0).prod(axis=1)
        alive[rest] &= (groups[rest] != groups[i]) | (common <= np.float32(overlap) * (area[i] + area[rest] - common))
    return order[np.array(chosen, dtype=np.int64)]


def soften(boxes: Array, scores: Array, groups: Indices, threshold: float, kept: int) -> tuple[Indices, Array]:
    """Soft-NMS (Bodla et al., ICCV 2017): a box loses score by how much it overlaps better ones of its group.

    Returns indices and lowered scores of what still has more than the threshold, best first.
    """
    left = scores.astype(np.float64)
    chosen: list[int] = []
    while len(chosen) < kept and left.size and left.max() > threshold:
        best = int(left.argmax())
        chosen.append(best)
        shared = np.where(groups == groups[best], overlaps(boxes[best], boxes), 0)
        scores = np.where(np.arange(len(left)) == best, left, scores)
        left = left * np.exp(-(shared.astype(np.float64) ** 2) / SIGMA)
        left[chosen] = 0
    picked = np.array(chosen, dtype=np.int64)
    return picked, scores[picked].astype(np.float32)
