"""Pixels as the network takes them, and how to come back to the original image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.clipself.image import Pixels, dense_pixels, fvit_pixels

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NetworkInput:
    """One image inside its square.

    pixels    float32 [3, S, S], normalised
    valid     height and width of the picture inside the square, pixels
    factors   network pixels per original pixel, x and y
    original  height and width of the original image
    """

    pixels: Array
    valid: tuple[int, int]
    factors: tuple[float, float]
    original: tuple[int, int]

    @property
    def side(self) -> int:
        """S."""
        return int(self.pixels.shape[1])

    def inside(self, boxes: Array) -> Array:
        """Boxes [R, 4] in original pixels -> network pixels."""
        fx, fy = self.factors
        return (boxes * np.array([fx, fy, fx, fy], dtype=np.float32)).astype(np.float32)


def prepare(pixels: Pixels, side: int, *, detector: bool) -> NetworkInput:
    """RGB [H, W, 3] -> what CLIPSelf's towers take, or F-ViT detectors, which normalise otherwise."""
    height, width = pixels.shape[:2]
    if detector:
        made, valid, factors = fvit_pixels(pixels, side)
        return NetworkInput(made, valid, (float(factors[0]), float(factors[1])), (height, width))
    made, scale = dense_pixels(pixels, side)
    valid = (max(round(height * scale), 1), max(round(width * scale), 1))
    return NetworkInput(made, valid, (scale, scale), (height, width))
