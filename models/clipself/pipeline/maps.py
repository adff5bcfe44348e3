"""A label for every pixel: cosines on the patch grid, raised to the image bilinearly, the best label wins.

The map covers the whole padded square; the part that is the image is read from it, at the image's resolution or the
grid's. Rows are worked on in strips, so that memory does not grow with the image.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from models.clipself.pipeline.scoring import softmax

Array = npt.NDArray[np.float32]
Values = npt.NDArray[np.uint16]

STRIP = 2**24  # numbers worked on at once


@dataclass(frozen=True)
class MapPlace:
    """Where a map's pixels lie on the patch grid. size: the map's height and width; cells: its size in patches."""

    size: tuple[int, int]
    cells: tuple[float, float]


def strips(cosines: Array, place: MapPlace) -> Iterator[tuple[slice, Array]]:
    """Cosines [C, h, w] of the square's patches -> rows of the map and their cosines [C, rows, width], downwards."""
    height, width = place.size
    columns = _between(width, place.cells[1], cosines.shape[2])
    wide = _mix(cosines, columns, axis=2)
    low, high, part = _between(height, place.cells[0], cosines.shape[1])
    step = max(1, STRIP // (cosines.shape[0] * width))
    for top in range(0, height, step):
        rows = slice(top, min(top + step, height))
        yield rows, _mix(wide, (low[rows], high[rows], part[rows]), axis=1)


def labelled(cosines: Array, place: MapPlace, scale: float, threshold: float | None) -> Values:
    """[height, width]: 0 background, i + 1 label i. threshold: score below which the best label is no label."""
    values = np.zeros(place.size, dtype=np.uint16)
    for rows, strip in strips(cosines, place):
        best = strip.argmax(axis=0)
        values[rows] = best + 1
        if threshold is not None:
            score = np.take_along_axis(softmax(strip * np.float32(scale), axis=0), best[None], axis=0)[0]
            values[rows][score < threshold] = 0
    return values


def heat(cosines: Array, place: MapPlace, scale: float) -> npt.NDArray[np.uint8]:
    """Scores of all labels as 0..255 [C, height, width]."""
    levels = np.empty((len(cosines), *place.size), dtype=np.uint8)
    for rows, strip in strips(cosines, place):
        levels[:, rows] = np.round(softmax(strip * np.float32(scale), axis=0) * 255)
    return levels


def palette(count: int) -> list[list[int]]:
    """Colours of values 0 to count - 1: black, then far apart, as PASCAL VOC colours its maps."""
    colours = []
    for value in range(count):
        bits, colour = value, [0, 0, 0]
        for shift in range(7, -1, -1):
            for channel in range(3):
                colour[channel] |= (bits >> channel & 1) << shift
            bits >>= 3
        colours.append(colour)
    return colours


def palette_png(values: Values, colours: list[list[int]]) -> bytes:
    """Values 0..255 as a palette PNG."""
    image = Image.fromarray(values.astype(np.uint8))
    image.putpalette([part for colour in colours for part in colour])
    return _png(image)


def grey_png(levels: npt.NDArray[np.uint8]) -> bytes:
    """[height, width] as a grey PNG."""
    return _png(Image.fromarray(levels))


def _png(image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def _between(size: int, cells: float, limit: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array]:
    """For each of `size` pixels spread over so many cells: the two nearest cells and the second one's share."""
    at = np.clip((np.arange(size) + 0.5) * (cells / size) - 0.5, 0, limit - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, limit - 1), (at - low).astype(np.float32)


def _mix(values: Array, between: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array], axis: int) -> Array:
    low, high, part = between
    share = part if axis == 2 else part[:, None]
    mixed: Array = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return mixed
