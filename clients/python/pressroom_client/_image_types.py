"""What the image calls answer: plain frozen values that can draw themselves.

Boxes are in pixels of the image as it is shown, x to the right and y down, far edges exclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UsageError
from ._masks import decode_mask, encode_mask
from ._pictures import Picture, read_grey
from ._types import Timings

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Box:
    """A box's borders, pixels."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float

    @classmethod
    def parse(cls, raw: Mapping[str, float]) -> Box:
        """From the wire's four names."""
        return cls(raw["xmin"], raw["ymin"], raw["xmax"], raw["ymax"])

    @property
    def xywh(self) -> list[float]:
        """Left, top, width, height: COCO's way."""
        return [self.xmin, self.ymin, self.xmax - self.xmin, self.ymax - self.ymin]

    def __iter__(self) -> Iterator[float]:
        return iter((self.xmin, self.ymin, self.xmax, self.ymax))


@dataclass(frozen=True)
class LabelScore:
    """How well a label fits. score: 0..1, a share among the labels asked for; cosine: -1..1, what ranks them."""

    label: str
    score: float
    cosine: float


@dataclass(frozen=True, kw_only=True)
class Region:
    """One box or mask of a request, and what is in it.

    box      as it was read, clipped to the image; of a mask, what bounds it
    clipped  the box reached beyond the image
    top      likeliest labels first
    scores, cosines   of all labels, in the result's order; None if they were not asked for
    """

    index: int
    kind: str
    box: Box
    clipped: bool
    top: tuple[LabelScore, ...]
    scores: tuple[float, ...] | None
    cosines: tuple[float, ...] | None

    @property
    def label(self) -> str:
        """The likeliest."""
        return self.top[0].label

    @property
    def score(self) -> float:
        """Of the likeliest label."""
        return self.top[0].score


@dataclass(frozen=True)
class Detection:
    """One thing found."""

    label: str
    score: float
    box: Box


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The pixels of one label.

    value    in `SegmentResult.map`: 0 background, then the labels from 1 on
    color    red, green, blue of the palette
    rle      {"size", "counts"}, with output "rle"
    heatmap  a grey PNG file, 255 for a score of 1, with output "heatmaps"
    """

    label: str
    value: int
    color: tuple[int, int, int]
    pixels: int
    rle: Mapping[str, Any] | None = None
    heatmap: bytes | None = None

    @property
    def scores(self) -> np.ndarray:
        """The heat map as float32 [H, W], 0..1; UsageError without one. Needs Pillow."""
        if self.heatmap is None:
            raise UsageError("this segment has no heat map", hint='ask for output="heatmaps"')
        return read_grey(self.heatmap).astype(np.float32) / 255


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageResult:
    """What every image call answers.

    model, version, digest  what answered; digest "sha256:..." names the exact artifact
    request_id              the id both sides log for this call
    timings                 the server's stages, milliseconds
    batch_rows              images that went through the network together
    width, height           of the image, after its EXIF orientation was applied
    labels                  in the order asked for
    size                    side of the square the network saw, pixels
    """

    model: str
    version: str
    digest: str
    request_id: str
    timings: Timings
    batch_rows: int | None
    width: int
    height: int
    labels: tuple[str, ...]
    size: int | None
    _picture: Picture = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class RegionsResult(ImageResult):
    """The answer to one `regions` call: boxes first, then masks, each in the order sent. Iterate or index it."""

    regions: tuple[Region, ...]

    def __iter__(self) -> Iterator[Region]:
        return iter(self.regions)

    def __len__(self) -> int:
        return len(self.regions)

    def __getitem__(self, index: int) -> Region:
        return self.regions[index]

    def draw(self, font: str | None = None) -> Image.Image:
        """The image with every region's box, likeliest label and score. Needs Pillow.

        font  path of a TrueType font, for labels in scripts that Pillow's own does not have
        """
        from ._drawing import draw_boxes

        marked = [(one.box, one.label, one.score) for one in self.regions]
        return draw_boxes(self._picture.open(), marked, self.labels, font)

    def to_coco(self, image_id: int | str = 0, category_ids: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """COCO result dicts of the likeliest labels; a category is its place in `labels` from 1 on, or yours."""
        return [_coco(one.box, one.label, one.score, image_id, self, category_ids) for one in self.regions]


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectResult(ImageResult):
    """The answer to one `detect` call, best first. Iterate or index it.

    proposals  "model": boxes are the detector's; "grid": windows of several sizes, no detector
    fusion     "trained", "transfer" (labels unknown in training) or "none"
    """

    detections: tuple[Detection, ...]
    proposals: str
    fusion: str

    def __iter__(self) -> Iterator[Detection]:
        return iter(self.detections)

    def __len__(self) -> int:
        return len(self.detections)

    def __getitem__(self, index: int) -> Detection:
        return self.detections[index]

    def draw(self, font: str | None = None) -> Image.Image:
        """The image with every detection's box, label and score. Needs Pillow.

        font  path of a TrueType font, for labels in scripts that Pillow's own does not have
        """
        from ._drawing import draw_boxes

        marked = [(one.box, one.label, one.score) for one in reversed(self.detections)]  # the best on top
        return draw_boxes(self._picture.open(), marked, self.labels, font)

    def to_coco(self, image_id: int | str = 0, category_ids: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """COCO result dicts. A label's category is its place in `labels` from 1 on, or the one you give."""
        return [_coco(one.box, one.label, one.score, image_id, self, category_ids) for one in self.detections]


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentResult(ImageResult):
    """The answer to one `segment` call. Iterate its segments.

    map_width, map_height   of the map: the image's, or the network's patches
    png                     a palette PNG file whose values are the segments', with output "png"
    """

    segments: tuple[Segment, ...]
    map_width: int
    map_height: int
    png: bytes | None

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def map(self) -> np.ndarray:
        """Integers [map_height, map_width], the segments' values; from a PNG this needs Pillow.

        UsageError with output "heatmaps", which says nothing of a winner.
        """
        if self.png is not None:
            return read_grey(self.png)
        if not any(one.rle for one in self.segments):
            raise UsageError("heat maps are no label map", hint='ask for output="png" or "rle"')
        filled = np.zeros((self.map_height, self.map_width), dtype=np.int32)
        for one in self.segments:
            if one.rle:
                filled[decode_mask(one.rle)] = one.value
        return filled

    def draw(self, opacity: float = 0.5, font: str | None = None) -> Image.Image:
        """The image under the map's colours, with a legend of the labels that occur. Needs Pillow.

        opacity  of the colours, 0..1
        font     path of a TrueType font, for labels in scripts that Pillow's own does not have
        """
        from ._drawing import draw_map

        return draw_map(self._picture.open(), self, opacity, font)

    def to_coco(self, image_id: int | str = 0, category_ids: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """A COCO segmentation dict for each label that has pixels, run lengths uncompressed; background left out."""
        values = self.map
        return [
            {
                "image_id": image_id,
                "category_id": _category(one.label, self, category_ids),
                "segmentation": encode_mask(values == one.value),
            }
            for one in self.segments
            if one.value and one.pixels
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifyResult(ImageResult):
    """The answer to one `classify` call.

    weights          which judged: of before CLIPSelf, after it, or a blend
    top              likeliest labels first
    scores, cosines  of all labels, in the order of `labels`; None if they were not asked for
    """

    weights: str
    top: tuple[LabelScore, ...]
    scores: tuple[float, ...] | None
    cosines: tuple[float, ...] | None

    @property
    def label(self) -> str:
        """The likeliest."""
        return self.top[0].label

    @property
    def score(self) -> float:
        """Of the likeliest label."""
        return self.top[0].score


def _coco(
    box: Box,
    label: str,
    score: float,
    image_id: int | str,
    result: ImageResult,
    category_ids: Mapping[str, int] | None,
) -> dict[str, Any]:
    return {
        "image_id": image_id,
        "category_id": _category(label, result, category_ids),
        "bbox": box.xywh,
        "score": score,
    }


def _category(label: str, result: ImageResult, category_ids: Mapping[str, int] | None) -> int:
    if category_ids is None:
        return result.labels.index(label) + 1
    if label not in category_ids:
        raise UsageError(f"category_ids has no label {label!r}", field="category_ids")
    return category_ids[label]
