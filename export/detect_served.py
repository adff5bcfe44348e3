"""The certificate's last stage: a whole request in numpy and onnxruntime, against the same in torch."""

from __future__ import annotations

import copy
from base64 import b64encode
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from export.detect_example import BOXES, example_labels, figures, picture
from export.detect_parity import PIPELINE, TOLERANCE, CaseResult, compare
from export.detect_pipeline import DetectPipeline
from export.detect_source import Opened
from export.parity import Tolerance
from export.runner import one_thread
from models.clipself.fvit.network import Fvit
from models.clipself.image import dense_pixels, fvit_pixels, normalised_boxes
from models.clipself.labels import prompts
from models.clipself.pipeline.label_embeddings import NOTHING
from models.clipself.pipeline.spec import TRANSFER
from models.clipself.regions import box_features, cosine
from models.clipself.text import join
from models.clipself.tokenizer import ClipTokenizer

Array = npt.NDArray[np.float32]
FEW = 5  # detections compared: far down the list, equal scores change places


def check_served(opened: Opened, pipeline: DetectPipeline, tolerance: Tolerance = TOLERANCE) -> list[CaseResult]:
    """A region request, or a detector's best detections."""
    spec = pipeline.engine.spec
    labels = example_labels(spec)
    pixels = picture()
    raw = {"shape": list(pixels.shape), "data": _base64(pixels)}
    with one_thread(), torch.inference_mode():
        if opened.fvit is None:
            answer = pipeline.answer({"task": "regions", "image": raw, "labels": labels, "boxes": BOXES})
            expected = _regions(opened, labels, pixels, spec.side(None))
            got = figures(answer).reshape(expected.shape)
            return [compare(f"{PIPELINE}: cosines of boxes", got, expected, tolerance)]
        answer = pipeline.answer({"task": "detect", "image": raw, "labels": labels, "max_detections": FEW})
        rows = figures(answer).reshape(-1, 5)
        found = _detections(opened, labels, pixels, spec.side(None))
    return [
        compare(f"{PIPELINE}: scores of detections", rows[:, 0], found[:, 4], tolerance),
        compare(f"{PIPELINE}: boxes of detections", rows[:, 1:], found[:, :4], tolerance),
    ]


def _regions(opened: Opened, labels: list[str], pixels: npt.NDArray[np.uint8], side: int) -> Array:
    prepared, scale = dense_pixels(pixels, side)
    dense = opened.visual.dense(torch.from_numpy(prepared)[None])
    boxes = torch.from_numpy(normalised_boxes(np.array(BOXES, dtype=np.float32), scale, side))
    features = box_features(dense, boxes, torch.zeros(len(boxes), dtype=torch.long))
    return np.asarray(cosine(features, _embeddings(opened, labels)))


def _detections(opened: Opened, labels: list[str], pixels: npt.NDArray[np.uint8], side: int) -> Array:
    known = opened.vocabulary
    assert opened.fvit is not None
    assert known is not None
    prepared, valid, factors = fvit_pixels(pixels, side)
    background = known.background
    rows = _embeddings(opened, labels if background is not None else [*labels, NOTHING])
    embeddings = rows if background is None else torch.cat([rows, functional.normalize(background, dim=-1)[None]])
    trained = dict(zip(known.names, known.base, strict=True))
    network = opened.fvit if all(label in trained for label in labels) else _for_any_label(opened.fvit)
    flags = torch.tensor([*(trained.get(label, False) for label in labels), True])
    (judged,) = network.judge(torch.from_numpy(prepared)[None], embeddings, flags, [valid])
    found = network.select(judged, valid, torch.from_numpy(factors))
    return np.asarray(found.boxes[:FEW])


def _for_any_label(network: Fvit) -> Fvit:
    """The network in the paper's transfer setting, unless it is in one already."""
    if network.config.head.transfer:
        return network
    changed = copy.deepcopy(network)
    head = replace(network.config.head, transfer=True, alpha=TRANSFER.base, vlm_temperature=TRANSFER.vlm_temperature)
    changed.config = replace(network.config, head=head)
    changed.head.temperature.fill_(TRANSFER.temperature)
    return changed


def _embeddings(opened: Opened, labels: list[str]) -> Tensor:
    """[C, E], as the official evaluation makes them."""
    known = opened.vocabulary
    if known is not None and all(label in known.names for label in labels):
        return functional.normalize(known.embeddings[[known.names.index(label) for label in labels]], dim=-1)
    assert opened.text is not None
    tokenizer, length = ClipTokenizer(), opened.config.text.context_length
    rows = [opened.text(torch.from_numpy(tokenizer(prompts(label, opened.templates), length))) for label in labels]
    return torch.stack([join(row) for row in rows])


def _base64(pixels: npt.NDArray[np.uint8]) -> str:
    return b64encode(pixels.tobytes()).decode()
