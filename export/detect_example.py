"""`example.json`: a request with a drawn picture, and the answer the exported graphs gave when they were pressed."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from export.detect_pipeline import DetectPipeline
from models.clipself.pipeline.spec import DetectSpec

Json = dict[str, Any]
WIDTH, HEIGHT = 120, 90
LABELS = ["cat", "pizza", "bird", "anchor"]
BOXES = [[10.0, 12.0, 60.0, 70.0], [58.0, 20.0, 112.0, 84.0], [0.0, 0.0, float(WIDTH), float(HEIGHT)]]
PIXELS, SCORES = 0.05, 1e-3  # what another machine's arithmetic may change


def picture() -> npt.NDArray[np.uint8]:
    """A drawn scene, RGB uint8 [HEIGHT, WIDTH, 3]."""
    down, across = np.mgrid[0:HEIGHT, 0:WIDTH]
    scene = np.stack([across * 2, down * 2, 255 - across - down], axis=-1).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(scene)
    draw = ImageDraw.Draw(image)
    draw.ellipse([12, 14, 56, 66], fill=(220, 170, 60), outline=(90, 40, 10))
    draw.polygon([(62, 80), (85, 24), (110, 80)], fill=(250, 240, 90), outline=(160, 40, 30))
    return np.asarray(image)


def make_example(name: str, pipeline: DetectPipeline, scores: float = SCORES) -> Json:
    """A detector's example asks for its best detection, another's for the regions of the picture.

    scores  how far another machine's may differ
    """
    spec = pipeline.engine.spec
    request: Json = {"model": name, "image": _png(), "labels": example_labels(spec)}
    if spec.detector is not None:
        request |= {"task": "detect", "max_detections": 1, "threshold": 0.0}
    else:
        request |= {"task": "regions", "boxes": BOXES}
    answer = pipeline.answer(request)
    tolerance = {"atol": PIXELS if spec.detector is not None else scores, "rtol": SCORES}
    return {"request": request, "response": answer, "tolerance": tolerance}


def example_labels(spec: DetectSpec) -> list[str]:
    """Labels the artifact can embed."""
    return list(spec.vocabulary[:8]) if spec.vocabulary else LABELS


def figures(answer: Json) -> npt.NDArray[np.float64]:
    """All numbers of such an answer: cosines of regions, or scores and boxes."""
    if "regions" in answer:
        return np.array([region["cosines"] for region in answer["regions"]]).ravel()
    rows = [[found["score"], *found["box"].values()] for found in answer["detections"]]
    return np.array(rows, dtype=np.float64).ravel()


def largest_difference(example: Json, pipeline: DetectPipeline) -> tuple[float, bool]:
    """Repeat a recorded example: the largest absolute difference, and whether all values hold."""
    got, expected = figures(pipeline.answer(example["request"])), figures(example["response"])
    if got.shape != expected.shape:
        return float("inf"), False
    apart = float(np.abs(got - expected).max()) if got.size else 0.0
    return apart, bool(np.allclose(got, expected, **example["tolerance"]))


def _png() -> str:
    written = io.BytesIO()
    Image.fromarray(picture()).save(written, "PNG")
    return b64encode(written.getvalue()).decode()
