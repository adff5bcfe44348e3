"""Pixels -> what an image tower takes. Resizing is bicubic with antialiasing on 8-bit RGB (Pillow).

    dense       longest side to `size`, black added right and below, then CLIP's mean and deviation
    classifier  longest side to `size`, black on both sides evenly; or shortest side to `size`, centre cut out
F-ViT detectors normalise otherwise: see `fvit_pixels`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]  # [H, W, 3] RGB
Array = npt.NDArray[np.float32]

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)  # of values 0..1
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
FVIT_MEAN = (123.675, 116.28, 103.53)  # of values 0..255
FVIT_STD = (58.395, 57.12, 57.375)
_CLIP_MEAN, _CLIP_STD = np.array(CLIP_MEAN, dtype=np.float32), np.array(CLIP_STD, dtype=np.float32)
_FVIT_MEAN, _FVIT_STD = np.array(FVIT_MEAN, dtype=np.float32), np.array(FVIT_STD, dtype=np.float32)
GROWTH = 1.5  # of a "thing" box before it is cut out and classified


def dense_pixels(pixels: Pixels, size: int) -> tuple[Array, float]:
    """float32 [3, size, size] and the scale that took original pixels there."""
    height, width = pixels.shape[:2]
    scale = min(size / height, size / width)
    resized = resize(pixels, round(height * scale), round(width * scale))
    return normalise(_pad(resized, size, (0, 0))), scale


def normalised_boxes(boxes: Array, scale: float, size: int) -> Array:
    """Boxes in original pixels [R, 4] -> fractions of the padded input."""
    return (boxes * np.float32(scale) / np.float32(size)).astype(np.float32)


def classifier_pixels(pixels: Pixels, size: int) -> Array:
    """The whole image inside float32 [3, size, size], black split evenly over both sides."""
    height, width = pixels.shape[:2]
    scale = size / max(height, width)
    resized = resize(pixels, round(height * scale), round(width * scale))
    return normalise(_pad(resized, size, ((size - resized.shape[0]) // 2, (size - resized.shape[1]) // 2)))


def centre_pixels(pixels: Pixels, size: int) -> Array:
    """The centre of the image, as float32 [3, size, size]."""
    height, width = pixels.shape[:2]
    if width <= height:
        resized = resize(pixels, int(size * height / width), size)
    else:
        resized = resize(pixels, size, int(size * width / height))
    top, left = round((resized.shape[0] - size) / 2), round((resized.shape[1] - size) / 2)
    return normalise(resized[top : top + size, left : left + size])


def grown_box(box: Array, height: int, width: int) -> Array:
    """x0, y0, x1, y1 grown around its centre and clipped to the image."""
    x0, y0, x1, y1 = (float(v) for v in box)
    half_width, half_height = (x1 - x0) * GROWTH / 2, (y1 - y0) * GROWTH / 2
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    grown = (max(x - half_width, 0), max(y - half_height, 0), min(x + half_width, width), min(y + half_height, height))
    return np.asarray(grown, dtype=np.float32)


def crop(pixels: Pixels, box: Array) -> Pixels:
    """The pixels of a box; its borders are rounded as Pillow rounds them."""
    return np.asarray(Image.fromarray(pixels).crop(tuple(float(v) for v in box)))  # type: ignore[arg-type]


def fvit_pixels(pixels: Pixels, size: int) -> tuple[Array, tuple[int, int], Array]:
    """An F-ViT input float32 [3, size, size], its valid height and width, and the factors [w, h, w, h] of resizing.

    Bilinear, keeps the ratio, normalised by ImageNet's mean and deviation, zeros right and below afterwards.
    """
    height, width = pixels.shape[:2]
    scale = min(size / max(height, width), size / min(height, width))
    new_width, new_height = max(int(width * scale + 0.5), 1), max(int(height * scale + 0.5), 1)
    image = Image.fromarray(pixels).resize((new_width, new_height), Image.Resampling.BILINEAR, reducing_gap=None)
    values = (np.asarray(image, dtype=np.float32) - _FVIT_MEAN) / _FVIT_STD
    padded = np.zeros((size, size, 3), dtype=np.float32)
    padded[:new_height, :new_width] = values
    factors = np.array([new_width / width, new_height / height] * 2, dtype=np.float32)
    return padded.transpose(2, 0, 1), (new_height, new_width), factors


def resize(pixels: Pixels, height: int, width: int) -> Pixels:
    """Bicubic, antialiased."""
    return np.asarray(Image.fromarray(pixels).resize((max(width, 1), max(height, 1)), Image.Resampling.BICUBIC))


def normalise(pixels: Pixels) -> Array:
    """uint8 [H, W, 3] -> float32 [3, H, W] by CLIP's mean and deviation."""
    values = pixels.astype(np.float32) / np.float32(255)
    scaled = (values - _CLIP_MEAN) / _CLIP_STD
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def _pad(pixels: Pixels, size: int, offset: tuple[int, int]) -> Pixels:
    padded = np.zeros((size, size, 3), dtype=np.uint8)
    padded[offset[0] : offset[0] + pixels.shape[0], offset[1] : offset[1] + pixels.shape[1]] = pixels
    return padded
