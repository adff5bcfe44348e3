"""Sizes of the image-text models people have checkpoints of, under their official names.

Some sizes leave no trace in a checkpoint's tensors (heads, the rotary stretch, the activation), so the caller names one
of these, or a JSON file of the same form: open_clip's and EVA-CLIP's model configurations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from export.errors import HyperParameterError, OptionError
from models.clipself.image import CLIP_MEAN, CLIP_STD

_BASE = {"layers": 12, "width": 768}
_LARGE = {"layers": 24, "width": 1024, "patch_size": 14}
_EVA = {"head_width": 64, "mlp_ratio": 2.6667, "pt_hw_seq_len": 16, "eva_model_name": "eva-clip"}
_TEXT_BASE = {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 12}
_TEXT_LARGE = {**_TEXT_BASE, "width": 768, "heads": 12}


def _eva(image_size: int, sizes: Mapping[str, int], embed_dim: int, text: Mapping[str, int]) -> dict[str, Any]:
    return {"embed_dim": embed_dim, "vision_cfg": {"image_size": image_size, **sizes, **_EVA}, "text_cfg": dict(text)}


def _openai(image_size: int, sizes: Mapping[str, int], embed_dim: int, text: Mapping[str, int]) -> dict[str, Any]:
    return {"embed_dim": embed_dim, "vision_cfg": {"image_size": image_size, **sizes}, "text_cfg": dict(text)}


KNOWN: dict[str, dict[str, Any]] = {
    "EVA02-CLIP-B-16": _eva(224, {**_BASE, "patch_size": 16}, 512, _TEXT_BASE),
    "EVA02-CLIP-L-14": _eva(224, _LARGE, 768, _TEXT_LARGE),
    "EVA02-CLIP-L-14-336": _eva(336, _LARGE, 768, _TEXT_LARGE),
    "ViT-B-32": _openai(224, {**_BASE, "patch_size": 32}, 512, _TEXT_BASE),
    "ViT-B-16": _openai(224, {**_BASE, "patch_size": 16}, 512, _TEXT_BASE),
    "ViT-L-14": _openai(224, _LARGE, 768, _TEXT_LARGE),
    "ViT-L-14-336": _openai(336, _LARGE, 768, _TEXT_LARGE),
}
KNOWN |= {f"{name}-quickgelu": {**KNOWN[name], "quick_gelu": True} for name in KNOWN if name.startswith("ViT")}


def read_config(named: str) -> dict[str, Any]:
    """A known name, or a JSON file: a model configuration, or one under "config" beside labels and templates.

    Raises OptionError where it is neither, HyperParameterError where its normalisation is not CLIP's.
    """
    if named in KNOWN:
        return {"config": KNOWN[named]}
    try:
        document = json.loads(Path(named).read_bytes())
    except (OSError, ValueError) as fault:
        reason = "is no JSON" if isinstance(fault, ValueError) else "is neither a file nor a known name"
        raise OptionError(f"--config {named!r} {reason}", f"a file, or one of {', '.join(KNOWN)}") from None
    if not isinstance(document, dict):
        raise OptionError(f"--config {named!r} holds no object", "{embed_dim, vision_cfg, text_cfg}")
    found = document if isinstance(document.get("config"), dict) else {"config": document}
    _check_normalisation(found.get("normalise"))
    return found


def _check_normalisation(stated: Any) -> None:
    if stated is None:
        return
    for name, ours in (("mean", CLIP_MEAN), ("std", CLIP_STD)):
        theirs = stated.get(name, ours)
        if len(theirs) != 3 or any(abs(a - b) > 1e-4 for a, b in zip(theirs, ours, strict=True)):
            raise HyperParameterError(
                f"normalise.{name} is {theirs}, CLIP's is {list(ours)}",
                "towers with another normalisation are not served",
            )
