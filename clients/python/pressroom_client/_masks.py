"""Masks: COCO's run lengths from and to arrays. Runs go down the columns; the first is background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ._errors import UsageError


def encode_mask(mask: np.ndarray) -> dict[str, Any]:
    """bool or 0 / 1 [H, W] -> {"size": [H, W], "counts": [run lengths]}."""
    if mask.ndim != 2 or not mask.size:
        raise UsageError(f"got a mask of shape {list(mask.shape)}, expected [height, width]", field="masks")
    down = np.concatenate([[False], mask.astype(bool).ravel(order="F"), [False]])
    edges = np.flatnonzero(down[1:] != down[:-1])
    bounds = np.concatenate([[0], edges, [mask.size]])
    counts = np.diff(bounds)
    if len(counts) > 1 and counts[-1] == 0:
        counts = counts[:-1]
    return {"size": list(mask.shape), "counts": counts.tolist()}


def decode_mask(rle: Mapping[str, Any]) -> np.ndarray:
    """{"size": [H, W], "counts": run lengths or COCO's compressed text} -> bool [H, W]."""
    height, width = rle["size"]
    counts = rle["counts"]
    runs = list(_uncompressed(counts)) if isinstance(counts, str) else counts
    filled = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    if filled.size != height * width:
        raise ValueError(f"runs add up to {filled.size} pixels, expected {height} x {width}")
    return filled.reshape((height, width), order="F")


def mask_wire(mask: np.ndarray | Mapping[str, Any]) -> Mapping[str, Any]:
    """A mask as the request carries it; what is no array passes through for the server to judge."""
    return encode_mask(mask) if isinstance(mask, np.ndarray) else mask


def mask_list(masks: np.ndarray | Sequence[Any]) -> list[Any]:
    """One mask an entry; an array is [H, W] or [R, H, W]."""
    if isinstance(masks, Mapping):
        return [masks]
    if isinstance(masks, np.ndarray) and masks.ndim == 2:
        return [mask_wire(masks)]
    return [mask_wire(mask) for mask in masks]


def _uncompressed(text: str) -> Iterator[int]:
    """COCO's text: base 32 digits from the lowest, signed; from the third run on, the difference to two runs before."""
    runs: list[int] = []
    at = 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            digit = ord(text[at]) - 48
            value |= (digit & 0x1F) << shift
            more = bool(digit & 0x20)
            at, shift = at + 1, shift + 5
            if not more and digit & 0x10:
                value |= -1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        yield runs[-1]
