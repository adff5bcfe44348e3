"""The four tasks: what each reads of a request, wants of the engine, and writes as its answer.

A task is made from a request and its image, and knows nothing of queues or sessions. All of it is arithmetic that may
take a while on large images: call it where that does no harm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from models.clipself.image import Pixels, centre_pixels, classifier_pixels
from models.clipself.pipeline import masks as mask_field
from models.clipself.pipeline.boxes import as_json, read_boxes
from models.clipself.pipeline.engine import Seen, Wanted
from models.clipself.pipeline.image_field import read_pixels
from models.clipself.pipeline.network_input import NetworkInput, prepare
from models.clipself.pipeline.request import Labels, Limits, TaskName, choice, flag, read_side, refused, whole
from models.clipself.pipeline.scoring import best, softmax
from models.clipself.pipeline.spec import DetectSpec
from models.errors import InputError

Json = dict[str, Any]
Array = npt.NDArray[np.float32]

LONGEST_RATIO = 8  # of the longer side of an image to its shorter, where its centre is cut out


@dataclass(frozen=True)
class Asked:
    """A request, read as far as every task reads it."""

    request: Mapping[str, Any]
    spec: DetectSpec
    limits: Limits
    labels: Labels

    def prepare(self, pixels: Pixels) -> NetworkInput:
        """RGB pixels as the network takes them."""
        return prepare(pixels, read_side(self.request, self.spec, self.limits), detector=self.spec.detector is not None)


class Task(ABC):
    """One request of one task."""

    name: ClassVar[TaskName]
    background: ClassVar[bool] = False  # whether the background is one more label, the last

    def __init__(self, asked: Asked, image: NetworkInput) -> None:
        self.asked, self.image = asked, image
        self.names = asked.labels.names

    @abstractmethod
    def wanted(self, labels: Array) -> Wanted:
        """What the engine should look for. labels float32 [C, E], with the background's last where wanted."""

    @abstractmethod
    def write(self, seen: Seen) -> Json:
        """The answer's own fields."""

    def common(self) -> Json:
        """The fields every answer has."""
        height, width = self.image.original
        return {
            "image": {"width": width, "height": height},
            "labels": list(self.names),
            "size": self.image.side,
        }

    def scores(self, cosines: Array) -> Array:
        """Softmax over labels."""
        return softmax(cosines * np.float32(self.asked.spec.scale))


class Regions(Task):
    """What is inside boxes and masks."""

    name = "regions"

    def __init__(self, asked: Asked, image: NetworkInput) -> None:
        super().__init__(asked, image)
        request, (height, width) = asked.request, image.original
        boxes, masks = request.get("boxes"), request.get("masks")
        self._check_count(boxes, masks)
        self._boxes, self._clipped = read_boxes([] if boxes is None else boxes, width, height)
        found = [mask_field.read_mask(m, width, height, f"masks[{i}]") for i, m in enumerate(masks or [])]
        self._cells = [mask_field.cells(mask, image, asked.spec.patch_size) for mask in found]
        self._bounds = [mask_field.bounds(mask) for mask in found]
        self._top, self._all = whole(request, "top_k", 5) or 5, flag(request, "return_scores", True)

    def wanted(self, labels: Array) -> Wanted:
        masks = np.stack(self._cells) if self._cells else None
        return Wanted(labels=labels, boxes=self.image.inside(self._boxes), masks=masks)

    def write(self, seen: Seen) -> Json:
        assert seen.regions is not None
        places = [*self._boxes, *self._bounds]
        scores = self.scores(seen.regions)
        return {"regions": [self._region(i, box, seen.regions[i], scores[i]) for i, box in enumerate(places)]}

    def _region(self, i: int, box: Array, cosines: Array, scores: Array) -> Json:
        is_box = i < len(self._boxes)
        return {
            "index": i,
            "kind": "box" if is_box else "mask",
            "box": as_json(box),
            "clipped": bool(is_box and self._clipped[i]),
            "top": best(self.names, cosines, scores, self._top),
            "scores": scores.tolist() if self._all else None,
            "cosines": cosines.tolist() if self._all else None,
        }

    def _check_count(self, boxes: Any, masks: Any) -> None:
        if masks is not None and not isinstance(masks, list):
            raise refused("masks", "masks must be a list", mask_field.HINT)
        count = sum(len(part) for part in (boxes, masks) if isinstance(part, list))
        if count == 0 and not (boxes is not None and not isinstance(boxes, list)):
            raise InputError("empty_batch", "the request has no boxes and no masks", field="boxes", hint="send one")
        if count > self.asked.limits.max_regions:
            raise InputError(
                "too_many_rows",
                f"{count} regions came, the limit is {self.asked.limits.max_regions}",
                field="boxes" if boxes else "masks",
                hint="split the request",
            )


class Classify:
    """What a whole image shows. It has no dense map, and no way back to the image."""

    name: ClassVar[TaskName] = "classify"

    def __init__(self, asked: Asked, pixels: Pixels) -> None:
        if not asked.spec.whole_image:
            raise InputError(
                "not_supported", "this artifact has no weights for whole images", field="model",
                hint="export it with --clip, or ask /v1/regions with a box over the whole image",
            )  # fmt: skip
        request, spec = asked.request, asked.spec
        side = spec.side_of_whole(whole(request, "size", None))
        if side > max(asked.limits.max_side, spec.native_size):
            raise refused("size", f"size {side} was asked for, the limit is {asked.limits.max_side}")
        centre = choice(request, "fit", ("pad", "centre")) == "centre"
        self.asked, self.names, self.side = asked, asked.labels.names, side
        self.pixels: Array = centre_pixels(_bounded(pixels), side) if centre else classifier_pixels(pixels, side)
        self._original = pixels.shape[:2]
        self._top, self._all = whole(request, "top_k", 5) or 5, flag(request, "return_scores", True)

    @classmethod
    def of(cls, asked: Asked) -> Classify:
        """Read the request's image; what is prepared for dense maps is no whole image."""
        return cls(asked, read_pixels(asked.request.get("image"), asked.limits))

    def write(self, cosines: Array) -> Json:
        """cosines float32 [C] -> the answer's own fields."""
        scores = softmax(cosines * np.float32(self.asked.spec.scale))
        height, width = self._original
        return {
            "image": {"width": width, "height": height},
            "labels": list(self.names),
            "size": self.side,
            "weights": self.asked.spec.whole_image,
            "top": best(self.names, cosines, scores, self._top),
            "scores": scores.tolist() if self._all else None,
            "cosines": cosines.tolist() if self._all else None,
        }


def _bounded(pixels: Pixels) -> Pixels:
    """The middle of a very long image: resized by its shorter side it would become enormous."""
    height, width = pixels.shape[:2]
    most = LONGEST_RATIO * min(height, width)
    top, left = max(height - most, 0) // 2, max(width - most, 0) // 2
    return pixels[top : top + most, left : left + most]
