"""Sizes of a CLIP model with an EVA-02 or OpenAI image tower, under the names of the official configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Variant = Literal["eva", "openai"]


class ClipConfigError(ValueError):
    """A configuration value is missing or cannot be used; the message names it and what was expected."""


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The image tower. Square inputs of `image_size` pixels were trained; any other size is served, too.

    pretrained_grid  EVA: side of the grid the rotary positions are stretched to (`pt_hw_seq_len`)
    """

    variant: Variant
    image_size: int
    layers: int
    width: int
    head_width: int
    patch_size: int
    mlp_ratio: float
    embed_dim: int
    pretrained_grid: int = 16
    quick_gelu: bool = False

    @property
    def heads(self) -> int:
        """Attention heads."""
        return self.width // self.head_width

    @property
    def hidden(self) -> int:
        """Width inside the feed-forward part, rounded down."""
        return int(self.width * self.mlp_ratio)

    @property
    def grid(self) -> int:
        """Side of the patch grid at the native size."""
        return self.image_size // self.patch_size


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The text tower."""

    context_length: int
    vocab_size: int
    width: int
    heads: int
    layers: int
    embed_dim: int
    quick_gelu: bool = False


@dataclass(frozen=True)
class ClipConfig:
    """Both towers."""

    vision: VisionConfig
    text: TextConfig


def parse_config(official: Mapping[str, Any], variant: str | None = None) -> ClipConfig:
    """`{embed_dim, vision_cfg, text_cfg, variant?, quick_gelu?}` -> configuration; raises ClipConfigError.

    variant  "eva" or "openai"; None: what the configuration says, or what its fields show
    """
    vision, text = _section(official, "vision_cfg"), _section(official, "text_cfg")
    named = variant or official.get("variant") or ("eva" if "eva_model_name" in vision else "openai")
    if named not in ("eva", "openai"):
        raise ClipConfigError(f'variant: got {named!r}, expected "eva" or "openai"')
    embed_dim, quick = _whole(official, "embed_dim"), bool(official.get("quick_gelu", False))
    return ClipConfig(_vision(vision, named, embed_dim, quick), _text(text, embed_dim, quick))


def _vision(found: Mapping[str, Any], variant: str, embed_dim: int, quick: bool) -> VisionConfig:
    default_ratio = 4.0 if variant == "openai" else 2.6667
    config = VisionConfig(
        variant="eva" if variant == "eva" else "openai",
        image_size=_whole(found, "image_size"),
        layers=_whole(found, "layers"),
        width=_whole(found, "width"),
        head_width=_whole(found, "head_width", 64),
        patch_size=_whole(found, "patch_size"),
        mlp_ratio=float(found.get("mlp_ratio", default_ratio)),
        embed_dim=embed_dim,
        pretrained_grid=_whole(found, "pt_hw_seq_len", 16),
        quick_gelu=quick,
    )
    if config.width % config.head_width or (variant == "eva" and config.head_width % 4):
        raise ClipConfigError(f"head_width: got {config.head_width}, expected a divisor of width = {config.width}")
    return config


def _text(found: Mapping[str, Any], embed_dim: int, quick: bool) -> TextConfig:
    names = ("context_length", "vocab_size", "width", "heads", "layers")
    sizes = {name: _whole(found, name) for name in names}
    if sizes["width"] % sizes["heads"]:
        raise ClipConfigError(f"text heads: got {sizes['heads']}, expected a divisor of width = {sizes['width']}")
    return TextConfig(**sizes, embed_dim=embed_dim, quick_gelu=quick)


def _section(official: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = official.get(name)
    if not isinstance(found, Mapping):
        raise ClipConfigError(f"{name}: expected an object with the tower's sizes")
    return found


def _whole(found: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = found.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ClipConfigError(f"{name}: got {value!r}, expected a whole number >= 1")
    return value
