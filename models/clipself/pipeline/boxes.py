"""Boxes as callers write them, and the one rule for those that do not fit.

[xmin, ymin, xmax, ymax] or {"xmin": ...}, in pixels of the original image, far edges exclusive.
- Not four finite numbers, reversed or empty (xmax <= xmin, ymax <= ymin): refused, by its index.
- Wholly outside the image: refused, by its index.
- Partly outside: clipped to the image, and the answer says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from models.errors import InputError

Array = npt.NDArray[np.float32]
SIDES = ("xmin", "ymin", "xmax", "ymax")
HINT = "a box is [xmin, ymin, xmax, ymax] in pixels of the original image, xmax > xmin and ymax > ymin"


def read_boxes(sent: Any, width: int, height: int, field: str = "boxes") -> tuple[Array, npt.NDArray[np.bool_]]:
    """Boxes float32 [R, 4] inside the image, and which were clipped. Raises InputError (box_invalid)."""
    if not isinstance(sent, list):
        raise InputError("invalid_request", f"{field} must be a list of boxes", field=field, hint=HINT)
    boxes = np.array([_numbers(box, f"{field}[{i}]") for i, box in enumerate(sent)], dtype=np.float64).reshape(-1, 4)
    for i in np.flatnonzero((boxes[:, 2] <= boxes[:, 0]) | (boxes[:, 3] <= boxes[:, 1])):
        raise _refusal(boxes[i], f"{field}[{i}]", "is reversed or empty")
    limits = np.array([width, height, width, height], dtype=np.float64)
    inside = np.clip(boxes, 0, limits)
    for i in np.flatnonzero((inside[:, 2] <= inside[:, 0]) | (inside[:, 3] <= inside[:, 1])):
        raise _refusal(boxes[i], f"{field}[{i}]", f"lies outside the image of {width} x {height} pixels")
    return inside.astype(np.float32), (inside != boxes).any(axis=1)


def as_json(box: npt.NDArray[np.floating[Any]]) -> dict[str, float]:
    """One box by name."""
    return dict(zip(SIDES, (float(side) for side in box), strict=True))


def _numbers(box: Any, field: str) -> list[float]:
    values = [box[side] for side in SIDES if side in box] if isinstance(box, dict) else box
    if isinstance(box, dict) and (unknown := sorted(set(box) - set(SIDES))):
        raise InputError("box_invalid", f"a box has no {unknown[0][:40]!r}", field=field, hint=HINT)
    if not isinstance(values, list) or len(values) != 4:
        raise InputError("box_invalid", "a box needs four numbers", field=field, hint=HINT)
    if not all(isinstance(v, int | float) and not isinstance(v, bool) and _finite(v) for v in values):
        raise InputError("box_invalid", "a box needs four finite numbers", field=field, hint=HINT)
    return [float(v) for v in values]


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _refusal(box: npt.NDArray[np.float64], field: str, what: str) -> InputError:
    shown = ", ".join(f"{side:g}" for side in box)
    return InputError("box_invalid", f"the box [{shown}] {what}", field=field, hint=HINT)
