"""Features against labels. Letters: R regions, C labels, E embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
TINY = 1e-12  # what a norm is at least


def unit(features: Array, axis: int = -1) -> Array:
    """Norm 1 along an axis; zeros stay zeros."""
    norm = np.linalg.norm(features, axis=axis, keepdims=True)
    scaled: Array = features / np.maximum(norm, np.float32(TINY))
    return scaled


def cosine(features: Array, labels: Array) -> Array:
    """[R, E] and [C, E], neither need be normalised -> [R, C] in -1..1."""
    similarity: Array = unit(features) @ unit(labels).T
    return similarity


def softmax(logits: Array, axis: int = -1) -> Array:
    """Adds up to 1 along an axis."""
    grown = np.exp(logits - logits.max(axis=axis, keepdims=True))
    share: Array = grown / grown.sum(axis=axis, keepdims=True)
    return share


def best(names: tuple[str, ...], cosines: Array, scores: Array, count: int) -> list[dict[str, Any]]:
    """The likeliest labels of one region, best first; of equals the one that was sent first."""
    order = np.argsort(-cosines, kind="stable")[:count]
    return [{"label": names[i], "score": float(scores[i]), "cosine": float(cosines[i])} for i in order]
