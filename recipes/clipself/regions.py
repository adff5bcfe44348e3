"""Which regions of an image teach (Wu et al., CLIPSelf, ICLR 2024, section 3.2): a random grid of patches, or boxes."""

from __future__ import annotations

import numpy as np

from models.clipself.image import Array
from recipes.clipself.images import Sample
from recipes.clipself.settings import Training

SMALLEST = 4.0  # pixels; a region narrower than this shows nothing


def regions_of(sample: Sample, settings: Training, random: np.random.Generator) -> Array:
    """Boxes float32 [n, 4] inside the image, 1 <= n <= settings.boxes_per_image.

    An image without usable proposals is cut into patches.
    """
    height, width = sample.pixels.shape[:2]
    wanted = settings.regions == "proposals" or (settings.regions == "both" and random.random() < 0.5)
    boxes = _inside(sample.proposals, height, width) if wanted else np.zeros((0, 4), np.float32)
    if not len(boxes):
        boxes = patch_grid(height, width, *random.integers(1, settings.grid_most + 1, 2))
    kept = random.permutation(len(boxes))[: settings.boxes_per_image]
    return boxes[kept]


def patch_grid(height: int, width: int, rows: int, columns: int) -> Array:
    """The image cut into rows x columns equal patches, row by row."""
    x, y = np.linspace(0, width, columns + 1), np.linspace(0, height, rows + 1)
    boxes = [(x[j], y[i], x[j + 1], y[i + 1]) for i in range(rows) for j in range(columns)]
    return np.asarray(boxes, np.float32)


def _inside(boxes: Array, height: int, width: int) -> Array:
    """Clipped to the image; slivers left out."""
    clipped = np.clip(boxes, 0, np.asarray([width, height, width, height], np.float32)).reshape(-1, 4)
    sides = clipped[:, 2:] - clipped[:, :2]
    return clipped[(sides >= SMALLEST).all(axis=1)]
