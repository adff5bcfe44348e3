"""The image tasks: their native JSON requests, and their answers as typed values.

The same bytes travel as the body of a route and as the BYTES input `request` of a gRPC ModelInfer.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar

import numpy as np

from . import _json
from ._errors import PressroomError, UnexpectedAnswer, UsageError
from ._image_types import (
    Box,
    ClassifyResult,
    Detection,
    DetectResult,
    LabelScore,
    Region,
    RegionsResult,
    Segment,
    SegmentResult,
)
from ._masks import mask_list
from ._pictures import ImageLike, Picture, picture
from ._types import Timings

R = TypeVar("R")
Boxes = np.ndarray | Sequence[Sequence[float] | Box | Mapping[str, float]]
Masks = np.ndarray | Sequence[np.ndarray | Mapping[str, Any]]


class ImageOptions(TypedDict, total=False):
    """Of every image call. What is not given is the model's own choice.

    templates  prompts a label is put into, each with one `{}` and perhaps `{article}`
    size       longest side of the image inside the network, pixels
    extra      any further field of the route, as the server names it
    """

    templates: Sequence[str]
    size: int
    extra: Mapping[str, Any]


class RegionsOptions(ImageOptions, total=False):
    """Of `regions`: how many of the likeliest labels are named; whether scores of all labels come back."""

    top_k: int
    return_scores: bool


class DetectOptions(ImageOptions, total=False):
    """Of `detect`.

    threshold       lowest score of a detection, 0..1; `thresholds`: of single labels
    max_detections  the best so many
    overlap         intersection over union beyond which the weaker of two goes
    class_agnostic  boxes of different labels suppress each other, too
    proposals       "model": the detector's boxes; "grid": windows of several sizes, for models that are no detector
    """

    threshold: float
    thresholds: Mapping[str, float]
    max_detections: int
    overlap: float
    class_agnostic: bool
    proposals: Literal["model", "grid"]


class SegmentOptions(ImageOptions, total=False):
    """Of `segment`.

    output                "png", "rle" or "heatmaps"
    background_threshold  pixels whose best label scores less are background
    resolution            "image", or "grid": the network's patches
    """

    output: Literal["png", "rle", "heatmaps"]
    background_threshold: float
    resolution: Literal["image", "grid"]


class ClassifyOptions(RegionsOptions, total=False):
    """Of `classify`: fit "pad" shows the whole image with black borders, "centre" its centre square."""

    fit: Literal["pad", "centre"]


@dataclass(frozen=True, kw_only=True)
class ImageCall(Generic[R]):
    """One image request. `model` None: the server chooses (it serves one such model)."""

    path: str
    model: str | None
    version: str | None
    body: bytes
    picture: Picture
    parse: Callable[[Mapping[str, Any], dict[str, Any]], R]

    def read(self, body: bytes, request_id: str) -> R:
        """The result of a native JSON answer; UnexpectedAnswer if it is none."""
        try:
            answer = _json.decode(body)
            return self.parse(answer, _head(answer, self.picture, request_id))
        except PressroomError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the answer is not one of {self.path}: {type(error).__name__} at {error}"
            raise UnexpectedAnswer(message, hint="are client and server of one version?") from error


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What all image calls are given."""

    image: ImageLike
    labels: Iterable[str] | None
    model: str | None
    version: str | None
    options: Mapping[str, Any]


def regions_call(asked: Asked, boxes: Boxes | None, masks: Masks | None) -> ImageCall[RegionsResult]:
    """POST /v1/regions."""
    own = {
        "boxes": None if boxes is None else [_box_wire(box) for box in boxes],
        "masks": None if masks is None else mask_list(masks),
    }
    return _call("regions", asked, own, _regions)


def detect_call(asked: Asked) -> ImageCall[DetectResult]:
    """POST /v1/detect."""
    return _call("detect", asked, {}, _detections)


def segment_call(asked: Asked) -> ImageCall[SegmentResult]:
    """POST /v1/segment."""
    return _call("segment", asked, {}, _segments)


def classify_call(asked: Asked) -> ImageCall[ClassifyResult]:
    """POST /v1/classify."""
    return _call("classify", asked, {}, _classes)


def _call(
    task: str, asked: Asked, own: Mapping[str, Any], parse: Callable[[Mapping[str, Any], dict[str, Any]], R]
) -> ImageCall[R]:
    if isinstance(asked.labels, str):
        raise UsageError("labels is one string, expected a list of them", field="labels", hint='["cat", "dog"]')
    sent = picture(asked.image)
    options = {name: value for name, value in asked.options.items() if name != "extra"}
    fields = {
        "task": task,
        "model": asked.model,
        "version": asked.version,
        "image": sent.wire,
        "labels": None if asked.labels is None else list(asked.labels),
        **own,
        **options,
        **(asked.options.get("extra") or {}),
    }
    body = _json.encode({name: value for name, value in fields.items() if value is not None})
    return ImageCall(path=f"/v1/{task}", model=asked.model, version=asked.version, body=body, picture=sent, parse=parse)


def _box_wire(box: Any) -> Any:
    """A box as four numbers; what is none passes through for the server to judge."""
    if isinstance(box, Mapping):
        return dict(box)
    if isinstance(box, np.ndarray):
        return box.tolist()
    return list(box) if isinstance(box, (Box, Sequence)) and not isinstance(box, str) else box


def _head(answer: Mapping[str, Any], sent: Picture, request_id: str) -> dict[str, Any]:
    return {
        "model": answer["model"],
        "version": answer["version"],
        "digest": answer["digest"],
        "request_id": answer.get("request_id") or request_id,
        "timings": Timings.parse(answer.get("timings") or {}),
        "batch_rows": answer.get("batch_rows"),
        "width": answer["image"]["width"],
        "height": answer["image"]["height"],
        "labels": tuple(answer["labels"]),
        "size": answer.get("size"),
        "_picture": sent,
    }


def _regions(answer: Mapping[str, Any], head: dict[str, Any]) -> RegionsResult:
    return RegionsResult(regions=tuple(_region(raw) for raw in answer["regions"]), **head)


def _region(raw: Mapping[str, Any]) -> Region:
    return Region(
        index=raw["index"], kind=raw["kind"], box=Box.parse(raw["box"]), clipped=raw["clipped"], **_judgement(raw)
    )


def _detections(answer: Mapping[str, Any], head: dict[str, Any]) -> DetectResult:
    found = tuple(Detection(raw["label"], raw["score"], Box.parse(raw["box"])) for raw in answer["detections"])
    return DetectResult(detections=found, proposals=answer["proposals"], fusion=answer["fusion"], **head)


def _segments(answer: Mapping[str, Any], head: dict[str, Any]) -> SegmentResult:
    return SegmentResult(
        segments=tuple(_segment(raw) for raw in answer["segments"]),
        map_width=answer["map_size"]["width"],
        map_height=answer["map_size"]["height"],
        png=_bytes(answer.get("png")),
        **head,
    )


def _segment(raw: Mapping[str, Any]) -> Segment:
    red, green, blue = raw["color"]
    return Segment(
        label=raw["label"],
        value=raw["value"],
        color=(red, green, blue),
        pixels=raw["pixels"],
        rle=raw.get("rle"),
        heatmap=_bytes(raw.get("heatmap")),
    )


def _classes(answer: Mapping[str, Any], head: dict[str, Any]) -> ClassifyResult:
    return ClassifyResult(weights=answer["weights"], **_judgement(answer), **head)


def _judgement(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Top labels and all scores, of a region or a whole image."""
    scores, cosines = raw.get("scores"), raw.get("cosines")
    return {
        "top": tuple(LabelScore(one["label"], one["score"], one["cosine"]) for one in raw["top"]),
        "scores": None if scores is None else tuple(scores),
        "cosines": None if cosines is None else tuple(cosines),
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
