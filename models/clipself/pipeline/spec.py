"""What an artifact says about its networks: sizes, prompts, scales, and a detector's rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from models.clipself.config import Variant

TRANSFER_TEMPERATURE, TRANSFER_VLM_TEMPERATURE, TRANSFER_SHARE = 50.0, 120.0, 0.2  # the paper's transfer setting


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """How detector and CLIP scores are joined: score = detector ** (1 - share) * clip ** share.

    base, novel  CLIP's share for labels seen in training (and the background) and for others
    """

    temperature: float
    vlm_temperature: float
    base: float
    novel: float


TRANSFER = Fusion(
    temperature=TRANSFER_TEMPERATURE,
    vlm_temperature=TRANSFER_VLM_TEMPERATURE,
    base=TRANSFER_SHARE,
    novel=TRANSFER_SHARE,
)


@dataclass(frozen=True, kw_only=True)
class DetectorSpec:
    """An F-ViT detector's rules; see `models.clipself.fvit.config`.

    transfer  trained or set up for any vocabulary: its own fusion serves all labels
    """

    strides: tuple[float, ...]
    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    per_level: int
    proposals: int
    proposal_overlap: float
    proposal_stds: tuple[float, ...]
    transfer: bool
    fusion: Fusion
    threshold: float
    overlap: float
    kept: int
    stds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DetectSpec:
    """One artifact.

    size            longest side of an image inside the network, pixels, unless a request says otherwise
    scale           exp(logit_scale): cosines times this are logits
    templates       prompts of a label, used as they stand
    context_length  tokens of a prompt at most; 0: the artifact has no text tower
    vocabulary      labels whose embeddings came with the checkpoint; base: those seen in training
    weights, whole_image   which weights make dense maps and judge whole images; whole_image "": none do
    """

    variant: Variant
    patch_size: int
    native_size: int
    embed_dim: int
    head_width: int
    pretrained_grid: int
    size: int
    scale: float
    templates: tuple[str, ...]
    context_length: int
    vocabulary: tuple[str, ...] = ()
    base: tuple[bool, ...] = ()
    weights: str
    whole_image: str
    detector: DetectorSpec | None = None

    @property
    def grid(self) -> int:
        """Side of the patch grid at the native size."""
        return self.native_size // self.patch_size

    def side(self, size: int | None) -> int:
        """A wanted size as a side the network takes: whole patches; a detector's pyramid needs four of them."""
        least = 4 * self.patch_size if self.detector is not None else self.patch_size
        return max(least, math.ceil((size or self.size) / self.patch_size) * self.patch_size)

    def side_of_whole(self, size: int | None) -> int:
        """The same for whole images, which are judged at the native size."""
        return math.ceil((size or self.native_size) / self.patch_size) * self.patch_size

    def settings(self) -> dict[str, Any]:
        """As the manifest stores it."""
        return asdict(self)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> DetectSpec:
        """Raises KeyError, TypeError or ValueError where settings are another family's."""
        known = {field.name for field in fields(cls)}
        values = {name: _frozen(value) for name, value in settings.items() if name in known}
        if (detector := settings["detector"]) is not None:
            rules = {name: _frozen(value) for name, value in detector.items()}
            values["detector"] = DetectorSpec(**{**rules, "fusion": Fusion(**detector["fusion"])})
        return cls(**values)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
