"""Scenes of drawn objects on photographs and gradients, made as fast as they are needed.

Each scene is a picture of `size` x `size` pixels with some objects, mirrored, turned, recoloured and hardly
overlapping, and the box of each: what a proposal network would give. Labels are for measuring, never for training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

CELL = 64  # side of one drawing in the sheet
STYLES = 3
OBJECTS = (4, 8)  # fewest and most a scene, last one excluded
SIDES = (28, 80)  # longest side of an object, pixels of a 192-pixel scene
TURN = 25.0  # degrees either way
OVERLAP = 0.15  # of the smaller box
TRIES = 30

Pixels = npt.NDArray[np.uint8]
Boxes = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scene:
    """pixels uint8 [size, size, 3]; boxes float32 [n, 4] x0, y0, x1, y1 in pixels; labels int64 [n]."""

    pixels: Pixels
    boxes: Boxes
    labels: npt.NDArray[np.int64]


class Scenes:
    """An endless source of scenes: the same generator state draws the same scene."""

    def __init__(self, sheet: Path, photographs: Sequence[Path], size: int) -> None:
        self.size = size
        self._sheet = Image.open(sheet).convert("RGBA")
        self.classes = self._sheet.width // CELL
        self._photographs = [_photograph(path) for path in photographs]

    def draw(self, random: np.random.Generator) -> Scene:
        """One scene."""
        canvas = self._background(random)
        boxes: list[tuple[int, int, int, int]] = []
        labels: list[int] = []
        for _ in range(int(random.integers(*OBJECTS))):
            label = int(random.integers(self.classes))
            drawing = self._object(label, random)
            place = _free_place(drawing.size, self.size, boxes, random)
            if place is not None:
                canvas.paste(drawing, place[:2], drawing)
                boxes.append(place)
                labels.append(label)
        return Scene(_noisy(canvas, random), np.asarray(boxes, np.float32).reshape(-1, 4), np.asarray(labels, np.int64))

    def _object(self, label: int, random: np.random.Generator) -> Image.Image:
        left, top = label * CELL, int(random.integers(STYLES)) * CELL
        drawing = self._sheet.crop((left, top, left + CELL, top + CELL))
        if random.random() < 0.5:
            drawing = ImageOps.mirror(drawing)
        drawing = _recoloured(drawing, random)
        drawing = drawing.rotate(random.uniform(-TURN, TURN), Image.Resampling.BICUBIC, expand=True)
        drawing = drawing.crop(_visible(drawing))
        side = random.uniform(*SIDES) * self.size / 192
        scale = side / max(drawing.size)
        width, height = (max(round(length * scale), 1) for length in drawing.size)
        return drawing.resize((width, height), Image.Resampling.BICUBIC)

    def _background(self, random: np.random.Generator) -> Image.Image:
        size, kind = self.size, random.random()
        if kind < 0.5 and self._photographs:
            photograph = self._photographs[int(random.integers(len(self._photographs)))]
            side = int(random.integers(size // 2, min(photograph.size) + 1))
            left, top = (int(random.integers(length - side + 1)) for length in photograph.size)
            part = photograph.crop((left, top, left + side, top + side))
            return part.resize((size, size), Image.Resampling.BICUBIC)
        first, last = random.integers(0, 256, (2, 3))
        if kind > 0.85:
            last = first
        ramp = np.linspace(0, 1, size)[:, None, None]
        column = np.broadcast_to(first * (1 - ramp) + last * ramp, (size, size, 3))
        return Image.fromarray(column.round().astype(np.uint8))


@lru_cache(maxsize=32)
def _photograph(path: Path) -> Image.Image:
    with Image.open(path) as opened:
        return opened.convert("RGB")


def _visible(drawing: Image.Image) -> tuple[int, int, int, int]:
    alpha = drawing.getchannel("A").point(lambda value: 255 if value > 32 else 0)
    return alpha.getbbox() or (0, 0, *drawing.size)


def _recoloured(drawing: Image.Image, random: np.random.Generator) -> Image.Image:
    """Hue turned by up to 5 %, saturation and value scaled by up to 25 %; transparency kept."""
    alpha = drawing.getchannel("A")
    hsv = np.asarray(drawing.convert("RGB").convert("HSV")).astype(np.float32)
    hsv[..., 0] = (hsv[..., 0] + random.uniform(-12, 12)) % 256
    hsv[..., 1:] = np.clip(hsv[..., 1:] * random.uniform(0.75, 1.25, 2), 0, 255)
    plain = Image.frombytes("HSV", drawing.size, hsv.astype(np.uint8).tobytes()).convert("RGB")
    plain.putalpha(alpha)
    return plain


def _noisy(canvas: Image.Image, random: np.random.Generator) -> Pixels:
    noise = random.normal(0, random.uniform(0, 8), (*canvas.size, 3))
    return np.clip(np.asarray(canvas) + noise, 0, 255).astype(np.uint8)


def _free_place(
    extent: tuple[int, int], size: int, taken: list[tuple[int, int, int, int]], random: np.random.Generator
) -> tuple[int, int, int, int] | None:
    """A box of this extent that hardly covers those taken, or None after some tries."""
    width, height = extent
    if width > size or height > size:
        return None
    for _ in range(TRIES):
        left, top = int(random.integers(size - width + 1)), int(random.integers(size - height + 1))
        box = (left, top, left + width, top + height)
        if all(_covered(box, other) < OVERLAP for other in taken):
            return box
    return None


def _covered(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> float:
    """Common area by the smaller one's."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return max(width, 0) * max(height, 0) / max(min(areas), 1)
