"""Box classification through the served endpoint: labelled scenes it never saw, sent as files, counted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pressroom_client import Client

from benchmarks.server import ROOT

TINY = ROOT / "data" / "checkpoints" / "clipself_tiny"
SCENES = TINY / "scenes"


@dataclass(frozen=True)
class Accuracy:
    """Shares of right answers, 0..1.

    boxes   regions of whole scenes, pooled from the dense map
    top5    of those, right among the five likeliest
    crops   the same boxes, cut out and classified one by one with the same weights
    """

    model: str
    boxes: float
    top5: float
    crops: float


def scenes() -> list[dict[str, Any]]:
    """[{"image", "boxes", "labels"}]."""
    found: list[dict[str, Any]] = json.loads((SCENES / "scenes.json").read_text(encoding="utf-8"))
    return found


def labels() -> list[str]:
    """All labels, in the configuration's order."""
    found: list[str] = json.loads((TINY / "clip_tiny.json").read_text(encoding="utf-8"))["labels"]
    return found


def measure(client: Client, model: str, crop_model: str) -> Accuracy:
    """All scenes. crop_model: who judges cut-out boxes."""
    names, first, among, cropped, total = labels(), 0, 0, 0, 0
    for scene in scenes():
        path, truth = SCENES / scene["image"], scene["labels"]
        result = client.regions(path, scene["boxes"], names, model=model, top_k=5)
        first += sum(region.label == label for region, label in zip(result, truth, strict=True))
        among += sum(label in [one.label for one in region.top] for region, label in zip(result, truth, strict=True))
        for box, label in zip(scene["boxes"], truth, strict=True):
            cropped += client.classify(cut_out(path, box), names, model=crop_model, top_k=1).label == label
        total += len(truth)
    return Accuracy(model, first / total, among / total, cropped / total)


def cut_out(path: Path, box: list[float]) -> np.ndarray:
    """uint8 [h, w, 3]."""
    with Image.open(path) as opened:
        return np.asarray(opened.convert("RGB").crop(tuple(box)))  # type: ignore[arg-type]


def rows(measured: list[Accuracy], titles: dict[str, str]) -> list[list[str]]:
    """Lines of the table."""
    return [[titles[one.model], f"{one.boxes:.1%}", f"{one.top5:.1%}", f"{one.crops:.1%}"] for one in measured]


HEADINGS = ("weights", "boxes, top-1", "boxes, top-5", "crops, top-1")
