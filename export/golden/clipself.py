"""Golden cases of CLIPSelf: towers, F-ViT detectors, RoIAlign, image preparation, tokenizer.

What a case is follows from its configuration: `vision_cfg` (towers), `detector` (F-ViT), `op` (RoIAlign),
`detector_size` (image preparation), `vocab_size` and `cases` (tokenizer).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult, Tolerance, compare
from export.golden.outputs import compare_outputs
from models.clipself import checkpoint, image, regions
from models.clipself.clip import Clip, build
from models.clipself.config import parse_config
from models.clipself.position import resample_positions, rotary_table
from models.clipself.roi_align import roi_align
from models.clipself.text import join
from models.clipself.tokenizer import ClipTokenizer

Made = dict[str, Tensor]


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises CaseError, ClipConfigError or CheckpointError."""
    if "cases" in case.document:
        return _tokenizer(case)
    if "detector" in case.config:
        from export.golden.fvit import run as run_fvit

        return run_fvit(case)
    made = _kind(case)(case)
    return compare_outputs(case, made, dict(sorted(case.group("output").items())), lambda name: _tolerance(case, name))


def _kind(case: GoldenCase) -> Callable[[GoldenCase], Made]:
    for field, kind in (("vision_cfg", _towers), ("op", _roi_align), ("detector_size", _preparation)):
        if field in case.config:
            return kind
    raise CaseError(f"{case.path.name}: config names neither vision_cfg, detector, op, detector_size nor vocab_size")


def _tolerance(case: GoldenCase, name: str) -> Tolerance:
    """Logits are cosines times a scale of up to 100 and have a bound of their own."""
    stated = case.tolerance(name)
    logits = case.document["tolerance"].get("logits_atol")
    return Tolerance(float(logits), stated.rtol) if logits is not None and name.endswith("logits") else stated


def _towers(case: GoldenCase) -> Made:
    config, state, inputs = parse_config(case.config), case.group("state"), case.group("input")
    network = build(config)
    network.load_state_dict(checkpoint.translate(state, config).state, strict=True)
    made: Made = {}
    with torch.inference_mode():
        labels = network.text(inputs["token_ids"])
        made |= _with_unit("text_features", labels)
        if "ensemble_token_ids" in inputs:
            ids = inputs["ensemble_token_ids"]
            made["ensemble_class_embeddings"] = join(network.text(ids.flatten(0, 1)).unflatten(0, ids.shape[:2]))
        for name in inputs:
            if name == "image" or name.endswith(".image"):
                made |= _one_size(network, labels, inputs, name.removesuffix("image"))
    return made | (_rotary_tables(case, network) if config.vision.variant == "eva" else {})


def _one_size(network: Clip, labels: Tensor, inputs: Made, prefix: str) -> Made:
    """All outputs of one input size; their names begin with its prefix, as "s128x128."."""
    pixels, scale = inputs[f"{prefix}image"], network.logit_scale
    image_features, dense = network.visual(pixels), network.visual.dense(pixels)
    boxes = regions.box_features(dense, inputs[f"{prefix}boxes_normalised"], _owner(inputs, f"{prefix}boxes_per_image"))
    masks = regions.mask_features(dense, inputs[f"{prefix}masks_grid"], _owner(inputs, f"{prefix}masks_per_image"))
    similarity = regions.cosine(boxes, labels)
    vision = network.config.vision
    position = resample_positions(network.visual.position, vision.grid, network.visual.grid_of(pixels))
    made = _with_unit("image_features", image_features) | _with_unit("roi_features", boxes)
    made |= {
        "dense_features": dense,
        "mask_features_normalised": masks,
        "image_logits": regions.cosine(image_features, labels) * scale.exp(),
        "roi_cosine": similarity,
        "roi_probs": regions.probabilities(similarity, scale),
        "mask_cosine": regions.cosine(masks, labels),
        "dense_cosine": regions.dense_cosine(dense, labels),
        "position_embedding": position.unsqueeze(0) if vision.variant == "eva" else position,
    }
    return {f"{prefix}{name}": tensor for name, tensor in made.items()}


def _with_unit(name: str, features: Tensor) -> Made:
    return {name: features, f"{name}_normalised": functional.normalize(features, dim=-1)}


def _owner(inputs: Made, name: str) -> Tensor:
    counts = inputs[name]
    return torch.repeat_interleave(torch.arange(len(counts)), counts)


def _rotary_tables(case: GoldenCase, network: Clip) -> Made:
    """`rope.freqs_cos` of the native grid, `rope.freqs_cos_64` of the square grid of 64 tokens."""
    vision = network.config.vision
    made: Made = {}
    for name in case.group("output"):
        if match := re.fullmatch(r"rope\.freqs_(cos|sin)(?:_(\d+))?", name):
            side = round(int(match[2]) ** 0.5) if match[2] else vision.grid
            tables = rotary_table(vision.head_width, (side, side), vision.pretrained_grid)
            made[name] = tables[match[1] == "sin"]
    return made


def _roi_align(case: GoldenCase) -> Made:
    inputs = case.group("input")
    made: Made = {}
    for name in case.group("output"):
        match = re.fullmatch(r"(un)?aligned_out(\d+)_sampling(\d+)(?:_scale(\d+))?", name)
        if match:
            factor = int(match[4] or 1)
            made[name] = roi_align(
                inputs["features"],
                inputs["boxes"] * factor,
                inputs["batch_index"],
                int(match[2]),
                scale=1 / factor,
                samples=int(match[3]),
                aligned=not match[1],
            )
    return made


def _preparation(case: GoldenCase) -> Made:
    dense_size, size = int(case.config["detector_size"]), int(case.config["classifier_size"])
    inputs = case.group("input")
    made: Made = {}
    for name, tensor in inputs.items():
        if not name.endswith(".pixels"):
            continue
        prefix, pixels = name.removesuffix("pixels"), tensor.numpy()
        dense, scale = image.dense_pixels(pixels, dense_size)
        boxes = inputs[f"{prefix}boxes"].numpy()
        grown = image.grown_box(boxes[1], *pixels.shape[:2])
        arrays = {
            "detector_input": dense,
            "boxes_normalised": image.normalised_boxes(boxes, scale, dense_size),
            "classifier_input_pad": image.classifier_pixels(pixels, size),
            "classifier_input_centercrop": image.centre_pixels(pixels, size),
            "crop_box": grown,
            "crop_classifier_input": image.classifier_pixels(image.crop(pixels, grown), size),
        }
        made |= {f"{prefix}{key}": torch.from_numpy(array) for key, array in arrays.items()}
    return made


def _tokenizer(case: GoldenCase) -> list[OutputResult]:
    """One line a text: its ids must be equal."""
    tokenizer, results = ClipTokenizer(), []
    for i, entry in enumerate(case.document["cases"]):
        length = int(entry["context_length"])
        expected = torch.zeros(length, dtype=torch.int64)
        expected[: len(entry["ids"])] = torch.tensor(entry["ids"])
        got = torch.from_numpy(tokenizer([entry["text"]], length)[0])
        results.append(compare(f"ids_{i}", got, expected, Tolerance(0.0)))
    return results
