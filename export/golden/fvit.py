"""Golden cases of F-ViT detectors. Boxes are matched by label and overlap, not by rank, as the cases ask."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from export.golden.case import GoldenCase
from export.golden.compare import OutputResult, Tolerance, absent, compare
from models.clipself.fvit import checkpoint
from models.clipself.fvit.config import parse_fvit
from models.clipself.fvit.network import Detections, Judged, build

OVERLAP = 0.99  # intersection over union of a box and its match


class _Answer(NamedTuple):
    maps: dict[str, Tensor]
    judged: Judged
    detections: Detections


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises ClipConfigError or CheckpointError."""
    answer, expected = _answer(case), case.group("output")
    results = [
        compare(name, answer.maps[name], expected[name], case.tolerance(name))
        for name in sorted(expected)
        if name in answer.maps
    ]
    results += _proposals(case, answer.judged, expected) + _detections(case, answer.detections, expected)
    seen = {result.output for result in results}
    return results + [
        absent(name, "no such output in our code", expected[name]) for name in expected if name not in seen
    ]


def _answer(case: GoldenCase) -> _Answer:
    config, state, inputs = parse_fvit(case.config), case.group("state"), case.group("input")
    network = build(config)
    network.load_state_dict(checkpoint.translate(state, config).state, strict=True)
    height, width = (int(size) for size in inputs["img_shape"])
    with torch.inference_mode():
        maps, dense = network.backbone(inputs["image"])
        levels = network.pyramid(maps)
        judged = network.judge(inputs["image"], inputs["class_embeddings"], inputs["is_base_class"], [(height, width)])
        detections = network.select(judged[0], (height, width), inputs["scale_factor"])
    named = {"dense_features": dense}
    named |= {f"backbone_level{i}": one for i, one in enumerate(maps)}
    named |= {f"fpn{i}": one for i, one in enumerate(levels)}
    return _Answer(named, judged[0], detections)


def _proposals(case: GoldenCase, judged: Judged, expected: dict[str, Tensor]) -> list[OutputResult]:
    """Proposals, and what the head says of each, in the order of the case."""
    wanted = expected["proposals"]
    order = _match(judged.proposals, wanted, None, None)
    if order is None:
        return [absent("proposals", "a proposal has no match among ours", wanted)]
    results = _boxes(case, "proposals", judged.proposals[order], wanted)
    scored = {
        "roi_scores_fused": judged.scores,
        "roi_box_deltas": judged.deltas,
        "roi_vlm_features": judged.vlm_features,
    }
    for name, tensor in scored.items():
        if name in expected:
            results.append(compare(name, tensor[order], expected[name], case.tolerance(name)))
    return results


def _detections(case: GoldenCase, found: Detections, expected: dict[str, Tensor]) -> list[OutputResult]:
    wanted, labels = expected["detections"], expected["labels"]
    order = _match(found.boxes, wanted, found.labels, labels)
    if order is None:
        return [
            absent(name, "a detection has no match among ours", expected[name]) for name in ("detections", "labels")
        ]
    exact = compare("labels", found.labels[order], labels, Tolerance(0.0))
    return [*_boxes(case, "detections", found.boxes[order], wanted), exact]


def _boxes(case: GoldenCase, name: str, got: Tensor, wanted: Tensor) -> list[OutputResult]:
    """The worse of two comparisons: boxes in pixels, scores."""
    stated = case.document["tolerance"]
    pixels = compare(name, got[:, :4], wanted[:, :4], Tolerance(float(stated["boxes_px"])))
    scores = compare(name, got[:, 4:], wanted[:, 4:], Tolerance(float(stated["scores"])))
    return [scores if pixels.verdict == "ok" and scores.verdict != "ok" else pixels]


def _match(got: Tensor, wanted: Tensor, labels: Tensor | None, wanted_labels: Tensor | None) -> Tensor | None:
    """For each wanted box the index of ours, each used once; None if the numbers differ or one has no match."""
    if len(got) != len(wanted):
        return None
    overlap = _overlaps(wanted[:, :4], got[:, :4])
    if labels is not None and wanted_labels is not None:
        overlap = overlap * (labels.unsqueeze(0) == wanted_labels.unsqueeze(1))
    order: list[int] = []
    for row in overlap:
        row[order] = 0
        best = int(row.argmax())
        if row[best] <= OVERLAP:
            return None
        order.append(best)
    return torch.tensor(order, dtype=torch.long)


def _overlaps(first: Tensor, second: Tensor) -> Tensor:
    low = torch.maximum(first[:, None, :2], second[None, :, :2])
    high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
    common = (high - low).clamp(min=0).prod(dim=-1)
    areas = [(boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) for boxes in (first, second)]
    return common / (areas[0][:, None] + areas[1][None] - common).clamp(min=1e-12)
