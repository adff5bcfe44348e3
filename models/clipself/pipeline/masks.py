"""Masks as callers write them -> bool [H, W] on the image -> the grid cells they touch.

{"size": [H, W], "counts": ...} COCO's run lengths, {"polygons": [...]}, or {"png": base64}. A cell belongs to a region
where any pixel of the mask reaches into it, which is where the official program's resized mask is above 0.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from models.clipself.pipeline.network_input import NetworkInput
from models.clipself.pipeline.run_lengths import decode_rle
from models.errors import InputError

Mask = npt.NDArray[np.bool_]
HINT = 'a mask is {"size": [height, width], "counts": ...}, {"polygons": [[x0, y0, ...]]} or {"png": base64}'
MOST_POINTS = 20_000


def read_mask(entry: Any, width: int, height: int, field: str) -> Mask:
    """One mask on the original image. Raises InputError (mask_invalid)."""
    if not isinstance(entry, dict):
        raise InputError("mask_invalid", "a mask must be an object", field=field, hint=HINT)
    forms = {("counts", "size"): _from_rle, ("polygons",): _from_polygons, ("png",): _from_png}
    form = forms.get(tuple(sorted(entry)))
    if form is None:
        found = ", ".join(sorted(entry))[:60] or "nothing"
        raise InputError("mask_invalid", f"a mask of {found} is not known", field=field, hint=HINT)
    mask = form(entry, width, height, field)
    if not mask.any():
        raise InputError("mask_invalid", "the mask covers no pixel of the image", field=field, hint="leave it out")
    return mask


def cells(mask: Mask, image: NetworkInput, patch: int) -> Mask:
    """Grid cells [S / patch, S / patch] the mask reaches into."""
    height, width = mask.shape
    fx, fy = image.factors
    count = image.side // patch
    rows = np.stack([mask[slice(*_reach(i, patch / fy, height))].any(axis=0) for i in range(count)])
    return np.stack([rows[:, slice(*_reach(i, patch / fx, width))].any(axis=1) for i in range(count)], axis=1)


def bounds(mask: Mask) -> npt.NDArray[np.float32]:
    """The box around a mask, far edges exclusive."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1], dtype=np.float32)


def _reach(cell: int, pixels: float, limit: int) -> tuple[int, int]:
    """First and last + 1 of the original pixels that a cell of so many pixels overlaps."""
    return min(math.floor(cell * pixels + 1e-6), limit), min(math.ceil((cell + 1) * pixels - 1e-6), limit)


def _from_rle(entry: Any, width: int, height: int, field: str) -> Mask:
    if entry["size"] != [height, width]:
        raise InputError(
            "mask_invalid",
            f"the mask is of size {str(entry['size'])[:40]}, the image is [{height}, {width}]",
            field=field,
            hint="size is [height, width] of the original image",
        )
    try:
        return decode_rle(entry["counts"], height, width)
    except ValueError as fault:
        raise InputError("mask_invalid", f"the run lengths {fault}", field=field, hint=HINT) from None


def _from_polygons(entry: Any, width: int, height: int, field: str) -> Mask:
    polygons = entry["polygons"]
    if not isinstance(polygons, list) or not polygons:
        raise InputError("mask_invalid", "polygons must be a list of point lists", field=field, hint=HINT)
    if sum(len(points) for points in polygons if isinstance(points, list)) > 2 * MOST_POINTS:
        raise InputError("mask_invalid", f"the polygons have more than {MOST_POINTS} points", field=field)
    mask = np.zeros((height, width), dtype=bool)
    for points in polygons:
        if not _are_points(points):
            raise InputError("mask_invalid", "a polygon is x0, y0, x1, y1, x2, y2, ...", field=field, hint=HINT)
        mask |= _filled(np.array(points, dtype=np.float64).reshape(-1, 2), width, height)
    return mask


def _filled(points: npt.NDArray[np.float64], width: int, height: int) -> Mask:
    """Pixels whose centre lies inside a polygon [N, 2], by the even-odd rule: every edge flips what is right of it."""
    flips = np.zeros((height, width + 1), dtype=bool)
    for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0), strict=True):
        top, bottom = sorted((y0, y1))
        rows = np.arange(max(math.ceil(top - 0.5), 0), min(math.ceil(bottom - 0.5), height))
        if len(rows):
            at = x0 + (rows + 0.5 - y0) * (x1 - x0) / (y1 - y0)
            flips[rows, np.clip(np.ceil(at - 0.5), 0, width).astype(np.int64)] ^= True
    return np.logical_xor.accumulate(flips, axis=1)[:, :width]


def _are_points(points: Any) -> bool:
    return (
        isinstance(points, list)
        and len(points) >= 6
        and len(points) % 2 == 0
        and all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) < 1e6 for v in points)
    )


def _from_png(entry: Any, width: int, height: int, field: str) -> Mask:
    try:
        data = base64.b64decode(entry["png"], validate=True)
        _check_size(data, width, height, field)
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            image.load()
            shown = np.asarray(image if image.mode in ("1", "L", "P", "I;16", "I") else image.convert("L"))
    except (OSError, ValueError, TypeError, SyntaxError, EOFError, binascii.Error) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError("mask_invalid", "the mask is no readable PNG in base64", field=field, hint=HINT) from None
    return shown > 0


def _check_size(data: bytes, width: int, height: int, field: str) -> None:
    """By the header, before Pillow makes anything of it."""
    wide, high = struct.unpack(">II", data[16:24].ljust(8, b"\0"))
    if data[12:16] == b"IHDR" and (wide, high) != (width, height):
        raise InputError(
            "mask_invalid", f"the mask is {wide} x {high} pixels, the image {width} x {height}", field=field
        )
