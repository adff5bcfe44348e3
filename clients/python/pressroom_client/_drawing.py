"""Results drawn onto their images; only this module draws, and it needs Pillow."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ._errors import UsageError
from ._image_types import Box

if TYPE_CHECKING:
    from ._image_types import SegmentResult

Color = tuple[int, int, int]
GOLDEN = 0.618033988749895  # turns of hue between neighbours: no two of the first dozens look alike
INK: tuple[Color, Color] = ((0, 0, 0), (255, 255, 255))


def draw_boxes(
    image: Image.Image, marked: Sequence[tuple[Box, str, float]], labels: Sequence[str], font: str | None
) -> Image.Image:
    """Frames with label and score, later ones on top."""
    pen = ImageDraw.Draw(image)
    letters, width = _font(font, image), max(2, round(max(image.size) / 400))
    for box, label, score in marked:
        color = color_of(labels.index(label) if label in labels else 0)
        pen.rectangle(_corners(box, image), outline=color, width=width)
        _tag(pen, image, (box.xmin, box.ymin), f"{label} {score:.2f}", color, letters)
    return image


def draw_map(image: Image.Image, result: SegmentResult, opacity: float, font: str | None) -> Image.Image:
    """The map's colours over the image; labels that occur are listed in its corner."""
    if not 0 <= opacity <= 1:
        raise UsageError(f"opacity is {opacity}, expected 0 to 1", field="opacity")
    colors = np.zeros((max((one.value for one in result.segments), default=0) + 1, 3), dtype=np.uint8)
    for one in result.segments:
        colors[one.value] = one.color
    painted = Image.fromarray(colors[result.map]).resize(image.size, Image.Resampling.NEAREST)
    mixed = Image.blend(image, painted, opacity)
    pen, letters, top = ImageDraw.Draw(mixed), _font(font, image), 0.0
    for one in sorted(result.segments, key=lambda one: -one.pixels):
        if one.pixels:
            top = _tag(pen, mixed, (0, top), one.label, one.color, letters, below=True)
    return mixed


def color_of(index: int) -> Color:
    """A colour for the label of this number."""
    red, green, blue = colorsys.hsv_to_rgb(index * GOLDEN % 1, 0.85, 0.95)
    return round(red * 255), round(green * 255), round(blue * 255)


def _corners(box: Box, image: Image.Image) -> tuple[float, float, float, float]:
    """Far edges are exclusive; a frame lies on the last pixels inside."""
    right, bottom = min(box.xmax, image.width) - 1, min(box.ymax, image.height) - 1
    return box.xmin, box.ymin, max(right, box.xmin), max(bottom, box.ymin)


def _tag(
    pen: ImageDraw.ImageDraw,
    image: Image.Image,
    corner: tuple[float, float],
    text: str,
    color: Color,
    font: Any,
    *,
    below: bool = False,
) -> float:
    """Text on its colour, above the corner where it fits (or below it), moved inside the image; returns its bottom."""
    left, top, right, bottom = pen.textbbox((0, 0), text, font=font)
    width, height = right - left + 4, bottom - top + 4
    x = max(min(corner[0], image.width - width), 0)
    y = corner[1] if below or corner[1] < height else corner[1] - height
    ink = INK[0] if 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 128 else INK[1]
    pen.rectangle((x, y, x + width, y + height), fill=color)
    pen.text((x + 2 - left, y + 2 - top), text, fill=ink, font=font)
    return y + height


def _font(path: str | None, image: Image.Image) -> Any:
    size = max(11, round(max(image.size) / 50))
    if path is None:
        return ImageFont.load_default(size)
    try:
        return ImageFont.truetype(path, size)
    except OSError as error:
        raise UsageError(f"the font {path!r} cannot be read: {error}", field="font") from error
