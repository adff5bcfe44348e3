"""Label embeddings that came as a file, and prompt templates: what a vocabulary of an artifact is made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from export.checkpoint_files import load_pth, load_safetensors, sniff
from export.errors import CheckpointFileError, OptionError
from models.clipself.labels import is_template

BACKGROUND = "background"


@dataclass(frozen=True)
class Vocabulary:
    """Labels with their embeddings float32 [C, E], and the background's [E] if there is one.

    base  labels that were trained on
    """

    names: tuple[str, ...]
    embeddings: Tensor
    background: Tensor | None
    base: tuple[bool, ...]


def read_embeddings(path: Path, names: Sequence[str] | None, seen: Sequence[str] | None) -> Vocabulary:
    """`{name: tensor [E]}` in a .pt or .safetensors file, or .npy [N, E] with names from elsewhere."""
    if path.suffix == ".npy":
        return named_rows(torch.from_numpy(_rows(path)), names, seen, path.name)
    loaded = load_safetensors(path) if sniff(path) == "safetensors" else load_pth(path)
    if (
        not isinstance(loaded, dict)
        or not loaded
        or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items())
    ):
        raise CheckpointFileError(f"{path.name} holds no label embeddings", "a dictionary: label -> tensor [E]")
    rows = [row.float().flatten() for row in loaded.values()]
    if len({len(row) for row in rows}) != 1:
        raise CheckpointFileError(f"{path.name} has embeddings of different widths", "one width for all labels")
    return named_rows(torch.stack(rows), list(loaded), seen, path.name)


def named_rows(rows: Tensor, names: Sequence[str] | None, seen: Sequence[str] | None, file: str) -> Vocabulary:
    """Rows [N, E] with N names, or N - 1 where the last row is the background's."""
    if names is None:
        raise OptionError(f"{file} holds no label names", "name a JSON list or text file of them with --classes")
    labels = [*names, BACKGROUND] if len(names) == len(rows) - 1 and BACKGROUND not in names else list(names)
    if len(labels) != len(rows) or len(set(labels)) != len(labels):
        raise OptionError(f"{len(names)} label names for {len(rows)} embeddings", "one name a row, all different")
    if not bool(torch.isfinite(rows).all()):
        raise CheckpointFileError(f"{file} holds NaN or infinite values", "make the embeddings again")
    kept = [i for i, label in enumerate(labels) if label != BACKGROUND]
    trained = labels if seen is None else seen
    return Vocabulary(
        names=tuple(labels[i] for i in kept),
        embeddings=rows[kept].float().contiguous(),
        background=rows[labels.index(BACKGROUND)].float().contiguous() if BACKGROUND in labels else None,
        base=tuple(labels[i] in trained for i in kept),
    )


def read_names(path: Path) -> list[str]:
    """A JSON list of texts, or a text file with one a line."""
    text = path.read_text(encoding="utf-8")
    names = json.loads(text) if text.lstrip().startswith("[") else [line for line in text.splitlines() if line.strip()]
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{path.name} holds no list of texts", "a JSON list, or one a line")
    return list(names)


def check_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """Raises OptionError for the first that has no place for a label, or another's."""
    for text in templates:
        if not isinstance(text, str) or not is_template(text):
            raise OptionError(f"{text!r} is no template", "one {} for the label, perhaps {article}")
    return tuple(templates)


def _rows(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as fault:
        raise CheckpointFileError(f"{path.name} is no readable .npy file: {fault}", "np.save(file, rows)") from None
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise CheckpointFileError(f"{path.name} is {rows.dtype} of shape {rows.shape}", "floating-point [N, E]")
    return np.asarray(rows, dtype=np.float32)
