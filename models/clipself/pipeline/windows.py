"""Boxes without a detector: windows of several sizes over the image, scored as regions, thinned by Soft-NMS.

A poor man's proposals: a thing is found only as well as one of the windows fits it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.suppression import soften

Array = npt.NDArray[np.float32]

SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)  # a window's side of the image's shorter one
RATIOS = (0.5, 1.0, 2.0)  # height by width, at equal area
STEP = 0.5  # of a window's side, from one to the next
LEAST = 8.0  # pixels
MOST = 2000  # of one image: smaller ones are left out


@dataclass(frozen=True)
class Found:
    """Boxes float32 [D, 4] in original pixels, scores float32 [D], labels int64 [D] by index, best first."""

    boxes: Array
    scores: Array
    labels: npt.NDArray[np.int64]


def windows(width: int, height: int) -> Array:
    """Distinct windows float32 [R, 4] inside an image, at most MOST."""
    made: list[Array] = []
    for share in SHARES:
        if sum(map(len, made)) > MOST // 2:
            break
        side = share * min(width, height)
        for ratio in RATIOS:
            tall, wide = min(side * ratio**0.5, height), min(side / ratio**0.5, width)
            if min(tall, wide) >= min(LEAST, width, height):
                made.append(_row_by_row(_starts(width, wide), _starts(height, tall), wide, tall))
    every = np.concatenate(made)[:MOST].round(2)
    return np.unique(every, axis=0)[::-1].astype(np.float32)


def pick(
    boxes: Array, scores: Array, thresholds: Array, kept: int, *, agnostic: bool, background: bool = True
) -> Found:
    """The best windows. scores float32 [R, C] or, with the background's last, [R, C + 1]; thresholds [C]."""
    found = scores[:, :-1] if background else scores
    rows, labels = np.nonzero(found > thresholds)
    picked, softened = soften(
        boxes[rows], found[rows, labels], np.zeros_like(labels) if agnostic else labels, 0.0, kept
    )
    enough = softened > thresholds[labels[picked]]
    picked, softened = picked[enough], softened[enough]
    return Found(boxes[rows[picked]], softened, labels[picked])


def _starts(length: int, window: float) -> Array:
    """Evenly spaced, the last one ends at the border."""
    count = 1 + int(np.ceil((length - window) / (window * STEP) - 1e-9))
    return np.linspace(0, length - window, max(count, 1), dtype=np.float32)


def _row_by_row(left: Array, top: Array, wide: float, tall: float) -> Array:
    x, y = np.meshgrid(left, top)
    return np.stack([x, y, x + np.float32(wide), y + np.float32(tall)], axis=-1).reshape(-1, 4)
