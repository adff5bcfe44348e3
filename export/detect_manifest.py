"""What an image artifact's `artifact.json` says, the licence of the weights first of all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from export.artifact import (
    FileEntry,
    Manifest,
    Metric,
    Official,
    Paper,
    Runtime,
    Signature,
    Source,
    TensorSpec,
    document,
)
from export.detect_source import Kind
from export.onnx_graph import OPSET
from models.clipself.pipeline.engine import VISION
from models.clipself.pipeline.spec import DetectSpec

FAMILY = "detect"
REPOSITORY, COMMIT = "wusize/CLIPSelf", "1c7fe9c5c38d800903d4754a89d7a8fcc7977101"
NON_COMMERCIAL = "NTU S-Lab License 1.0: non-commercial use only, the official weights included"
PAPER = Paper(
    title="CLIPSelf: Vision Transformer Distills Itself for Open-Vocabulary Dense Prediction",
    venue="ICLR 2024",
    url="https://arxiv.org/abs/2310.01403",
)


@dataclass(frozen=True, kw_only=True)
class DetectFacts:
    """What a pressed tower or detector is made of; `manifest` adds name and version."""

    kind: Kind
    licence: str | None
    source: Source
    config: dict[str, Any]
    origin: str  # where the configuration came from
    spec: DetectSpec
    files: dict[str, FileEntry]
    precision: str = "fp32"
    metrics: list[Metric] = field(default_factory=list)

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest for a name and version."""
        licence = (
            NON_COMMERCIAL if self.licence is None else f"program: {NON_COMMERCIAL}; these weights: {self.licence}"
        )
        return Manifest(
            name=name,
            version=version,
            family=FAMILY,
            architecture=self.kind,
            paper=PAPER,
            official=Official(repository=REPOSITORY, commit=COMMIT, licence=licence),
            source=self.source,
            hyper_parameters=self.config,
            hyper_parameter_origins=dict.fromkeys(self.config, self.origin),
            signature=SIGNATURE,
            request=request_in_words(self.spec),
            pipeline=pipeline_in_words(self.spec),
            settings=self.spec.settings() | ({} if self.precision == "fp32" else {"precision": self.precision}),
            runtime=Runtime(kind="onnx", file=VISION, opset=OPSET),
            files=self.files,
            metrics=self.metrics,
        )


_IMAGE = TensorSpec(
    name="image",
    dtype="UINT8",
    shape=["height", "width", 3],
    unit="0..255",
    meaning="RGB pixels of the request's image, where that has none",
    range="0..255",
    optional=True,
)
SIGNATURE = Signature(
    inputs=[
        document("request", "JSON, the body of /v1/regions, detect, segment or classify, with the field task"),
        _IMAGE,
    ],
    outputs=[document("response", "JSON, the answer of that route")],
)


def request_in_words(spec: DetectSpec) -> str:
    """What a client sends."""
    words = "any words" if spec.context_length else f"of {', '.join(spec.vocabulary[:12])}"
    boxes = "" if spec.detector is not None else "; boxes or masks for /v1/regions"
    return f"an image (JPEG, PNG, WebP or raw pixels) and labels, {words}{boxes}"


def pipeline_in_words(spec: DetectSpec) -> list[str]:
    """What is done with it, step by step."""
    how = "bilinear, ImageNet's mean and deviation, then zeros" if spec.detector else "bicubic, black, then CLIP's mean"
    steps = [f"turn the image upright, longest side to {spec.size} px, {how}, right and below"]
    if spec.context_length:
        steps.append(f"each label into {len(spec.templates)} prompts, their text embeddings averaged")
    steps.append("image tower: dense features, the last block without attention, unit norm")
    if spec.detector is not None:
        steps.append("proposals; box head and RoIAlign of the dense map; both scores fused; suppression within labels")
    steps.append("regions: RoIAlign 1 x 1, or the mean of a mask's cells; cosine with labels, softmax")
    if spec.whole_image:
        steps.append(f"whole images at {spec.native_size} px by {spec.whole_image}")
    return steps
