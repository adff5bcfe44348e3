"""Requests and answers of the four image routes, as their OpenAPI document describes them.

Documentation only: the readers of this package and of `models.clipself` validate, because their refusals name the
place and the remedy. Boxes are in pixels of the image as it is shown, that is after its EXIF orientation was applied:
x to the right, y down, the far edges exclusive (a box over the whole image ends at width and height).
A request may also come as multipart/form-data: part `image` the file, part `request` the other fields as JSON.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.core.answer import Explained

Json = dict[str, Any]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RawImage(_Strict):
    """Pixels without a file around them."""

    dtype: Literal["uint8"] = "uint8"
    shape: list[int] = Field(description="[height, width], [height, width, 1] grey, or [height, width, 3] RGB")
    data: str = Field(description="base64 of the bytes, row by row")


class PreparedImage(_Strict):
    """What the network itself takes: resized, padded to a square and normalised by the caller."""

    dtype: Literal["float32"]
    shape: list[int] = Field(description="[3, S, S], S a multiple of the patch size")
    data: str = Field(description="base64 of the little-endian bytes, row by row")
    valid: list[int] = Field(description="[height, width] of the picture inside the square, without padding")
    original: list[int] = Field(description="[height, width] of the image that boxes are given and answered in")


class Box(_Strict):
    """Pixels of the original image, far edges exclusive."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float


class Rle(_Strict):
    """A mask in COCO's run lengths: down the columns, the first run is background."""

    size: list[int] = Field(description="[height, width]: the image's")
    counts: str | list[int] = Field(description="COCO's compressed text, or the run lengths")


class Polygons(_Strict):
    """A mask as polygons that are filled and joined."""

    polygons: list[list[float]] = Field(description="each x0, y0, x1, y1, ..., at least three points")


class PngMask(_Strict):
    """A mask as a picture of the image's size; what is not 0 belongs to the region."""

    png: str = Field(description="base64 of a PNG file")


class _Request(_Strict):
    model: str | None = Field(None, description="`name` or `name:version`; may be left out if one model is served")
    version: str | None = Field(None, description="served version; default: the newest")
    task: Literal["regions", "detect", "segment", "classify"] | None = Field(
        None, description="which route is meant, where the request comes inside a tensor"
    )
    image: str | RawImage | PreparedImage = Field(
        description="base64 of a JPEG, PNG or WebP file (a data: URL does, too), or raw pixels; never an address"
    )
    labels: list[str] | None = Field(
        None, description="what to look for, in your words; may be left out where the model has a vocabulary of its own"
    )
    templates: list[str] | None = Field(
        None,
        description="prompts a label is put into, each with one `{}` and perhaps `{article}`; default: the model's",
    )
    size: int | None = Field(
        None, ge=1, description="longest side of the image inside the network, pixels; default: the model's"
    )


class _TopK(_Request):
    top_k: int = Field(5, ge=1, description="likeliest labels named")
    return_scores: bool = Field(True, description="scores of all labels, too")


class RegionsRequest(_TopK):
    """Say what is inside boxes or masks, in the caller's words."""

    boxes: list[list[float] | Box] | None = Field(None, description="[xmin, ymin, xmax, ymax], or by name")
    masks: list[Rle | Polygons | PngMask] | None = None


class DetectionsRequest(_Request):
    """Find labels in an image."""

    threshold: float | None = Field(None, ge=0, le=1, description="lowest score of a detection; default: the model's")
    thresholds: dict[str, float] | None = Field(None, description="of single labels, 0..1; the others have `threshold`")
    max_detections: int | None = Field(None, ge=1, description="most detections; default: the model's")
    overlap: float | None = Field(
        None,
        ge=0,
        le=1,
        description="intersection over union beyond which the weaker of two goes; default: the model's",
    )
    class_agnostic: bool = Field(False, description="boxes of different labels suppress each other, too")
    proposals: Literal["model", "grid"] = Field(
        "model",
        description="where boxes come from: the detector; or windows of several sizes, for models without one",
    )


class SegmentRequest(_Request):
    """Label every pixel of an image."""

    output: Literal["png", "rle", "heatmaps"] = Field("png", description="how the map is written")
    background_threshold: float | None = Field(
        None, ge=0, le=1, description="pixels whose best label scores less are background; default: there is none"
    )
    resolution: Literal["image", "grid"] = Field("image", description="pixels of the image, or the network's patches")


class ClassifyRequest(_TopK):
    """Say what a whole image shows."""

    fit: Literal["pad", "centre"] = Field("pad", description="the whole image with black borders, or its centre square")


class ImageSize(_Strict):
    """Of the original image, after its EXIF orientation was applied."""

    width: int
    height: int


class LabelScore(_Strict):
    """One label's fit."""

    label: str
    score: float = Field(description="0..1; over the request's labels the scores add up to 1")
    cosine: float = Field(description="-1..1, what labels are ranked by")


class _Answer(Explained):
    batch_rows: int = Field(description="images of the forward pass that served this request")
    image: ImageSize
    labels: list[str] = Field(description="in the request's order")
    size: int = Field(description="side of the square the network saw, pixels")


class Region(_Strict):
    """One box or mask."""

    index: int = Field(description="boxes first, then masks, each in the request's order")
    kind: Literal["box", "mask"]
    box: Box = Field(description="as it was read: clipped to the image; of a mask: what bounds it")
    clipped: bool = Field(description="the box reached beyond the image")
    top: list[LabelScore]
    scores: list[float] | None = Field(description="0..1, in the order of labels")
    cosines: list[float] | None = Field(description="-1..1, in the order of labels")


class RegionsResponse(_Answer):
    """Labels of each region."""

    regions: list[Region]


class Detection(_Strict):
    """One thing found."""

    label: str
    score: float
    box: Box


class DetectionsResponse(_Answer):
    """What was found, best first."""

    detections: list[Detection]
    proposals: Literal["model", "grid"] = Field(description="where boxes come from; `grid` is no detector")
    fusion: Literal["trained", "transfer", "none"] = Field(
        description="how detector and CLIP scores were joined: as in training, or for labels unknown then"
    )


class Segment(_Strict):
    """The pixels of one label."""

    label: str = Field(description="the request's; `background` for value 0")
    value: int = Field(description="in the PNG: 0 background, then the labels in the request's order from 1 on")
    color: list[int] = Field(description="[red, green, blue] of the palette")
    pixels: int
    rle: Rle | None = Field(description="with output `rle`")
    heatmap: str | None = Field(description="with output `heatmaps`: base64 of a grey PNG, 255 is a score of 1")


class SegmentResponse(_Answer):
    """A label for every pixel."""

    map_size: ImageSize
    segments: list[Segment]
    png: str | None = Field(description="with output `png`: base64 of a palette PNG of labels' values")


class ClassifyResponse(_Answer):
    """Labels of the whole image."""

    weights: str = Field(description="which weights judged: before CLIPSelf, after it, or a blend")
    top: list[LabelScore]
    scores: list[float] | None
    cosines: list[float] | None


_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGPYEiUHAALyAS3QazwQAAAAAElFTkSuQmCC"
_COMMON: Json = {"model": "clipself-tiny", "image": _PIXEL, "labels": ["cat", "pizza"]}
EXAMPLES: dict[str, Json] = {
    "regions": {**_COMMON, "boxes": [[0, 0, 1, 1]], "top_k": 1},
    "detect": {**_COMMON, "proposals": "grid", "threshold": 0.6, "max_detections": 10},
    "segment": {**_COMMON, "output": "rle", "background_threshold": 0.5},
    "classify": {**_COMMON, "top_k": 2},
}
