"""Images as people have them -> what the server reads; and back to a picture to draw on.

A path or bytes travel as the file they are; a PIL image as PNG; an array as its bytes. Nothing is resized, and an
address is never fetched, here or there. Only drawing, and sending a PIL image, need Pillow.
"""

from __future__ import annotations

import base64
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import UsageError

if TYPE_CHECKING:
    from PIL import Image

    ImageLike = str | os.PathLike[str] | bytes | bytearray | memoryview | np.ndarray | Image.Image
else:
    ImageLike = object

WITHOUT_LOSS = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")  # modes PNG keeps as they are
FIELD = "image"


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """One image: as the request carries it, and its file or array to draw on later."""

    wire: Any
    source: bytes | np.ndarray

    def open(self) -> Image.Image:
        """RGB, upright as the server reads it: the orientation in its EXIF data is applied. Needs Pillow."""
        pillow = need_pillow("drawing")
        if isinstance(self.source, np.ndarray):
            grey = self.source.ndim == 3 and self.source.shape[2] == 1
            drawn: Image.Image = pillow.fromarray(self.source[..., 0] if grey else self.source).convert("RGB")
            return drawn
        from PIL import ImageOps

        with pillow.open(io.BytesIO(self.source)) as opened:
            upright: Image.Image = ImageOps.exif_transpose(opened).convert("RGB")
            return upright


def picture(image: ImageLike) -> Picture:
    """An image ready to send; UsageError if it is none."""
    if isinstance(image, (str, os.PathLike)):
        return _file(_read(os.fspath(image)))
    if isinstance(image, (bytes, bytearray, memoryview)):
        return _file(bytes(image))
    if isinstance(image, np.ndarray):
        return _array(image)
    if hasattr(image, "save") and hasattr(image, "mode"):
        return _file(_png(image))
    hint = "give a path, the bytes of a file, a PIL image or a uint8 array [height, width, 3]"
    raise UsageError(f"got an image of type {type(image).__name__}", field=FIELD, hint=hint)


def read_grey(png: bytes) -> np.ndarray:
    """The values [H, W] of a grey or palette PNG file, whatever its colours. Needs Pillow."""
    with need_pillow("reading a PNG").open(io.BytesIO(png)) as opened:
        return np.array(opened)


def need_pillow(what: str) -> Any:
    """PIL.Image, or UsageError that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        hint = 'pip install "pressroom-client[images]"'
        raise UsageError(f"{what} needs Pillow, which is not installed", hint=hint) from error
    return Image


def _file(content: bytes) -> Picture:
    if not content:
        raise UsageError("the image is empty: 0 bytes", field=FIELD)
    return Picture(wire=base64.b64encode(content).decode(), source=content)


def _read(path: str) -> bytes:
    if path.lower().startswith(("http://", "https://", "ftp://", "data:")):
        hint = "fetch it yourself and give its bytes"
        raise UsageError(f"got an address, {path[:60]!r}, expected a path", field=FIELD, hint=hint)
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the image {path!r} cannot be read: {reason}", field=FIELD) from error


def _array(image: np.ndarray) -> Picture:
    if image.dtype != np.uint8:
        hint = "for values 0..1: (image * 255).round().astype(numpy.uint8)"
        raise UsageError(f"got an array of {image.dtype}, expected uint8, 0..255", field=FIELD, hint=hint)
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (1, 3)) or not image.size:
        shape = list(image.shape)
        hint = "drop an alpha channel with image[..., :3]; move channels last with image.transpose(1, 2, 0)"
        message = f"got an array of shape {shape}, expected [height, width], [height, width, 1] or [height, width, 3]"
        raise UsageError(message, field=FIELD, hint=hint)
    kept = np.ascontiguousarray(image)
    if kept is image:
        kept = image.copy()  # what is drawn on later is what was sent
    data = base64.b64encode(kept.tobytes()).decode()
    return Picture(wire={"dtype": "uint8", "shape": list(kept.shape), "data": data}, source=kept)


def _png(image: Any) -> bytes:
    """The image's own pixels; an orientation in its EXIF data does not travel, as it does not show in Pillow."""
    if not all(image.size):
        raise UsageError(f"got an image of {image.width} x {image.height} pixels", field=FIELD)
    plain = image if image.mode in WITHOUT_LOSS else image.convert("RGB")
    target = io.BytesIO()
    plain.save(target, format="PNG", compress_level=1, exif=b"")
    return target.getvalue()
