"""The files of an image artifact: graphs, position tables, label embeddings."""

from __future__ import annotations

from pathlib import Path

from safetensors.numpy import save_file

from export.detect_fvit import write_boxes, write_detector
from export.detect_graph import write_text, write_vision
from export.detect_regions import write_regions
from export.detect_source import DetectJob, Opened
from models.clipself.fvit.config import FvitConfig
from models.clipself.pipeline import engine
from models.clipself.pipeline.spec import DetectorSpec, DetectSpec, Fusion

USUAL_SIDES = 4  # native sizes, of the square dense maps are made of
LARGEST = 1024  # pixels


def make_spec(job: DetectJob, opened: Opened) -> DetectSpec:
    """What the artifact says about its networks."""
    vision, text = opened.config.vision, opened.config.text
    vocabulary = opened.vocabulary
    usual = min(USUAL_SIDES * vision.image_size, LARGEST)
    return DetectSpec(
        variant=vision.variant,
        patch_size=vision.patch_size,
        native_size=vision.image_size,
        embed_dim=vision.embed_dim,
        head_width=vision.head_width,
        pretrained_grid=vision.pretrained_grid,
        size=job.size or usual // vision.patch_size * vision.patch_size,
        scale=opened.scale,
        templates=opened.templates,
        context_length=0 if opened.text is None else text.context_length,
        vocabulary=() if vocabulary is None else vocabulary.names,
        base=() if vocabulary is None else vocabulary.base,
        weights=opened.kind,
        whole_image=opened.whole_image,
        detector=None if opened.fvit_config is None else _detector(opened.fvit_config, opened),
    )


def write_files(opened: Opened, folder: Path) -> None:
    """Every graph and the arrays. Raises ConversionError."""
    if opened.fvit is not None:
        write_detector(opened.fvit, folder / engine.VISION)
        write_boxes(opened.fvit, folder / engine.BOXES)
    else:
        write_vision(opened.visual, folder / engine.VISION, "both" if opened.image is None else "dense")
    write_regions(folder / engine.REGIONS)
    arrays = {engine.POSITION: opened.visual.position.detach()}
    if opened.image is not None:
        write_vision(opened.image, folder / engine.IMAGE, "image")
        arrays[engine.IMAGE_POSITION] = opened.image.position.detach()
    if opened.text is not None:
        write_text(opened.text, opened.config.text.context_length, folder / engine.TEXT)
    if opened.vocabulary is not None:
        arrays[engine.VOCABULARY] = opened.vocabulary.embeddings
        if opened.vocabulary.background is not None:
            arrays[engine.BACKGROUND] = opened.vocabulary.background
    save_file({name: tensor.numpy() for name, tensor in arrays.items()}, folder / engine.ARRAYS)


def _detector(config: FvitConfig, opened: Opened) -> DetectorSpec:
    head, rules, selection = config.head, config.proposals, config.selection
    assert opened.fvit is not None
    fusion = Fusion(
        temperature=float(opened.fvit.head.temperature),
        vlm_temperature=head.vlm_temperature,
        base=head.alpha,
        novel=head.alpha if head.transfer else head.beta,
    )
    return DetectorSpec(
        strides=config.strides,
        scales=config.scales,
        ratios=config.ratios,
        per_level=rules.per_level,
        proposals=rules.kept,
        proposal_overlap=rules.overlap,
        proposal_stds=rules.stds,
        transfer=head.transfer,
        fusion=fusion,
        threshold=selection.threshold,
        overlap=selection.overlap,
        kept=selection.kept,
        stds=selection.stds,
    )
