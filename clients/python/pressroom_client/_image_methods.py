"""The image calls of both clients: what is in these boxes, where are these things, what is each pixel, what is it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ._config import Retry, Timeout
from ._core import target
from ._exchange import Exchange, Wire
from ._image_calls import (
    Asked,
    Boxes,
    ClassifyOptions,
    DetectOptions,
    Masks,
    RegionsOptions,
    SegmentOptions,
    classify_call,
    detect_call,
    regions_call,
    segment_call,
)
from ._image_types import ClassifyResult, DetectResult, RegionsResult, SegmentResult
from ._pictures import ImageLike

T = TypeVar("T")
Version = str | int | None


def asked(
    image: ImageLike,
    labels: Iterable[str] | None,
    model: str | None,
    version: Version,
    options: Mapping[str, Any],
) -> Asked:
    """Arguments all four calls have; UsageError for a model name that cannot be one."""
    name, chosen = model, None if version is None else str(version)
    if model is not None:
        wanted = target(model, version)
        name, chosen = wanted.name, wanted.version
    return Asked(image=image, labels=labels, model=name, version=chosen, options=options)


class ImageMethods:
    """Of Client."""

    if TYPE_CHECKING:
        _wire: Wire

        def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    def regions(
        self,
        image: ImageLike,
        boxes: Boxes | None = None,
        labels: Iterable[str] | None = None,
        *,
        masks: Masks | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[RegionsOptions],
    ) -> RegionsResult:
        """Say what is in each box or mask, in your words.

        image    a path, the bytes of a JPEG, PNG or WebP file, a PIL image, or uint8 [H, W], [H, W, 1] or [H, W, 3]
        boxes    [R, 4] of xmin, ymin, xmax, ymax in pixels of the image as it is shown
        labels   your words; None: the model's own vocabulary, if it has one
        masks    bool arrays [H, W], COCO run lengths {"size", "counts"}, {"polygons": [...]} or {"png": base64}
        model    name, or "name:version"; None: the server's only model of this kind
        options  see RegionsOptions

        Raises InvalidRequest, UnsupportedMediaType, PayloadTooLarge, ModelNotFound, QueueFull ...
        """
        call = regions_call(asked(image, labels, model, version, options), boxes, masks)
        return self._run(self._wire.image(call), timeout, retries)

    def detect(
        self,
        image: ImageLike,
        labels: Iterable[str] | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[DetectOptions],
    ) -> DetectResult:
        """Find things in an image: boxes with labels and scores, best first. Everything else as in `regions`.

        options  see DetectOptions; a model that is no detector needs proposals="grid"
        """
        call = detect_call(asked(image, labels, model, version, options))
        return self._run(self._wire.image(call), timeout, retries)

    def segment(
        self,
        image: ImageLike,
        labels: Iterable[str] | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[SegmentOptions],
    ) -> SegmentResult:
        """Give every pixel of an image one of the labels. Everything else as in `regions`; options: SegmentOptions."""
        call = segment_call(asked(image, labels, model, version, options))
        return self._run(self._wire.image(call), timeout, retries)

    def classify(
        self,
        image: ImageLike,
        labels: Iterable[str] | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> ClassifyResult:
        """Say what a whole image shows. Everything else as in `regions`; options: ClassifyOptions."""
        call = classify_call(asked(image, labels, model, version, options))
        return self._run(self._wire.image(call), timeout, retries)


class AsyncImageMethods:
    """Of AsyncClient: the same, awaited."""

    if TYPE_CHECKING:
        _wire: Wire

        async def _run(
            self, exchange: Exchange[T], timeout: Timeout | float | None, retries: Retry | int | None = None
        ) -> T: ...

    async def regions(
        self,
        image: ImageLike,
        boxes: Boxes | None = None,
        labels: Iterable[str] | None = None,
        *,
        masks: Masks | None = None,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[RegionsOptions],
    ) -> RegionsResult:
        """See Client.regions."""
        call = regions_call(asked(image, labels, model, version, options), boxes, masks)
        return await self._run(self._wire.image(call), timeout, retries)

    async def detect(
        self,
        image: ImageLike,
        labels: Iterable[str] | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[DetectOptions],
    ) -> DetectResult:
        """See Client.detect."""
        call = detect_call(asked(image, labels, model, version, options))
        return await self._run(self._wire.image(call), timeout, retries)

    async def segment(
        self,
        image: ImageLike,
        labels: Iterable[str] | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[SegmentOptions],
    ) -> SegmentResult:
        """See Client.segment."""
        call = segment_call(asked(image, labels, model, version, options))
        return await self._run(self._wire.image(call), timeout, retries)

    async def classify(
        self,
        image: ImageLike,
        labels: Iterable[str] | None = None,
        *,
        model: str | None = None,
        version: str | int | None = None,
        timeout: Timeout | float | None = None,
        retries: Retry | int | None = None,
        **options: Unpack[ClassifyOptions],
    ) -> ClassifyResult:
        """See Client.classify."""
        call = classify_call(asked(image, labels, model, version, options))
        return await self._run(self._wire.image(call), timeout, retries)
