"""F-ViT's sizes and thresholds, under the names of the golden cases' configuration (from the official config files)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.clipself.config import ClipConfigError, VisionConfig, parse_config

TRANSFER = "FViTTransferBBoxHead"


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The box head and how detector and CLIP are fused.

    transfer           any vocabulary: one exponent for all classes, a fixed detector temperature
    alpha, beta        exponents of the CLIP score: base classes and background, novel classes
    """

    fc_channels: int
    convs: int
    shared_fcs: int
    class_fcs: int
    box_fcs: int
    transfer: bool
    detector_temperature: float | None  # None: learned, in the state dict
    vlm_temperature: float
    alpha: float
    beta: float


@dataclass(frozen=True, kw_only=True)
class ProposalConfig:
    """The region proposal network. norm: its convolutions carry BatchNorm (LVIS), or a bias (COCO)."""

    convs: int
    norm: bool
    per_level: int
    kept: int
    overlap: float
    stds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SelectionConfig:
    """From scored boxes to detections."""

    threshold: float
    overlap: float
    kept: int
    stds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class FvitConfig:
    """One F-ViT detector. taps: blocks whose tokens feed the pyramid; strides: pixels a cell of each level."""

    vision: VisionConfig
    taps: tuple[int, ...]
    channels: int
    head_channels: int
    strides: tuple[float, ...]
    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    head: HeadConfig
    proposals: ProposalConfig
    selection: SelectionConfig


def parse_fvit(official: Mapping[str, Any]) -> FvitConfig:
    """Raises ClipConfigError naming what is missing or cannot be used."""
    try:
        return _parse(official)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ClipConfigError):
            raise
        raise ClipConfigError(f"F-ViT configuration: {type(error).__name__}: {error}") from None


def _parse(official: Mapping[str, Any]) -> FvitConfig:
    rpn, rcnn, anchor = official["rpn"], official["rcnn"], official["anchor"]
    config = FvitConfig(
        vision=parse_config(official["clip"]).vision,
        taps=tuple(int(i) for i in official["out_indices"]),
        channels=int(official["fpn_channels"]),
        head_channels=int(official["head_conv_channels"]),
        strides=tuple(float(s) for s in official["strides"]),
        scales=tuple(float(s) for s in anchor["scales"]),
        ratios=tuple(float(r) for r in anchor["ratios"]),
        head=_head(official["head"]),
        proposals=ProposalConfig(
            convs=int(rpn["num_convs"]),
            norm=rpn["type"] == "CustomRPNHead",
            per_level=int(rpn["nms_pre"]),
            kept=int(rpn["max_per_img"]),
            overlap=float(rpn["nms_iou"]),
            stds=tuple(float(s) for s in rpn["stds"]),
        ),
        selection=SelectionConfig(
            threshold=float(rcnn["score_thr"]),
            overlap=float(rcnn["nms_iou"]),
            kept=int(rcnn["max_per_img"]),
            stds=tuple(float(s) for s in rcnn["bbox_stds"]),
        ),
    )
    if len(config.taps) != 4 or len(config.strides) != 5:
        raise ClipConfigError("out_indices and strides: expected four taps and five levels")
    return config


def _head(head: Mapping[str, Any]) -> HeadConfig:
    temperature = head["detector_temperature"]
    return HeadConfig(
        fc_channels=int(head["fc_out_channels"]),
        convs=int(head["num_shared_convs"]),
        shared_fcs=int(head["num_shared_fcs"]),
        class_fcs=int(head["num_cls_fcs"]),
        box_fcs=int(head["num_reg_fcs"]),
        transfer=head["type"] == TRANSFER,
        detector_temperature=None if isinstance(temperature, str) else float(temperature),
        vlm_temperature=float(head["vlm_temperature"]),
        alpha=float(head["alpha"]),
        beta=float(head["beta"]),
    )
