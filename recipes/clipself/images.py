"""Where training images come from: a folder of photographs, or scenes drawn as needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from models.clipself.image import Array, Pixels
from recipes.clipself.scenes import Scenes
from recipes.clipself.settings import SettingsError

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}
PROPOSALS = "proposals.json"
NO_BOXES = np.zeros((0, 4), np.float32)


@dataclass(frozen=True)
class Sample:
    """pixels uint8 [H, W, 3]; proposals float32 [n, 4] x0, y0, x1, y1 in its pixels, perhaps none."""

    pixels: Pixels
    proposals: Array


class Source(Protocol):
    """Any supply of images."""

    def draw(self, random: np.random.Generator) -> Sample:
        """An image; the same generator state gives the same one."""


class DrawnScenes:
    """Scenes of drawn objects; the objects' boxes are the proposals."""

    def __init__(self, scenes: Scenes) -> None:
        self._scenes = scenes

    def draw(self, random: np.random.Generator) -> Sample:
        scene = self._scenes.draw(random)
        return Sample(scene.pixels, scene.boxes)


class ImageFolder:
    """Every JPEG, PNG and WebP below a folder, mirrored at random.

    A file `proposals.json` there, {"name.jpg": [[x0, y0, x1, y1], ...]} in pixels, holds the boxes of a proposal
    network; names are relative to the folder. Raises SettingsError where the folder holds no image or a bad file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        if not self._files:
            raise SettingsError(f"{folder.name}: no image in it; expected {', '.join(sorted(SUFFIXES))}")
        self._proposals = _read_proposals(folder / PROPOSALS)

    def draw(self, random: np.random.Generator) -> Sample:
        path = self._files[int(random.integers(len(self._files)))]
        pixels, mirrored = _read(path), bool(random.random() < 0.5)
        boxes = self._proposals.get(path.relative_to(self._folder).as_posix(), NO_BOXES)
        return _mirrored(pixels, boxes) if mirrored else Sample(pixels, boxes)


def _mirrored(pixels: Pixels, boxes: Array) -> Sample:
    flipped = boxes.copy()
    flipped[:, [0, 2]] = pixels.shape[1] - boxes[:, [2, 0]]
    return Sample(np.ascontiguousarray(pixels[:, ::-1]), flipped)


def _read(path: Path) -> Pixels:
    try:
        with Image.open(path) as opened:
            return np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    except (OSError, UnidentifiedImageError) as error:
        raise SettingsError(f"{path.name}: not an image Pillow reads: {error}") from None


def _read_proposals(path: Path) -> dict[str, Array]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: np.asarray(boxes, np.float32).reshape(-1, 4) for name, boxes in found.items()}
    except (ValueError, AttributeError) as error:
        raise SettingsError(f"{path.name}: expected {{name: [[x0, y0, x1, y1], ...]}}: {error}") from None
