"""COCO's run lengths: down the columns, the first run is background, as numbers or as its compressed text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
_ZERO = 48  # the character that stands for 0


def decode_rle(counts: Any, height: int, width: int) -> Mask:
    """bool [height, width]. Raises ValueError saying what the counts do wrong."""
    runs = _numbers(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or not all(type(n) is int and n >= 0 for n in runs):
        raise ValueError("must be whole numbers of 0 and more, or COCO's text")
    if sum(runs) != height * width:
        raise ValueError(f"add up to {sum(runs)} pixels, the image has {height * width}")
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return flat.reshape(width, height).T


def encode_rle(mask: Mask) -> dict[str, Any]:
    """`{"size": [height, width], "counts": text}`."""
    flat = mask.T.ravel()
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    runs = np.diff(np.concatenate([[0], edges, [flat.size]]))
    numbers = [int(n) for n in runs]
    return {"size": list(mask.shape), "counts": _text([0, *numbers] if flat.size and flat[0] else numbers)}


def _text(runs: list[int]) -> str:
    """Each number less the one two before it, in groups of five bits, lowest first; a sixth bit says more follows."""
    letters = []
    for i, run in enumerate(runs):
        value = run - runs[i - 2] if i > 2 else run
        while True:
            group = value & 0x1F
            value >>= 5
            done = value == (-1 if group & 0x10 else 0)
            letters.append(chr(_ZERO + (group if done else group | 0x20)))
            if done:
                break
    return "".join(letters)


def _numbers(text: str) -> list[int]:
    runs: list[int] = []
    value = shift = 0
    for letter in text:
        group = ord(letter) - _ZERO
        if not 0 <= group < 64 or shift > 40:
            raise ValueError("hold a character COCO's text does not have")
        value |= (group & 0x1F) << shift
        shift += 5
        if not group & 0x20:
            if group & 0x10:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    if shift:
        raise ValueError("end inside a number")
    return runs
