"""Image files as people have them -> RGB pixels uint8 [H, W, 3], as a viewer would show them.

JPEG, PNG and WebP, told by their bytes. The size is read from the header and refused there if it is too large, so a
bomb costs nothing. EXIF orientation is applied; transparent pixels are laid on white; grey, palette, CMYK and 16-bit
images become 8-bit RGB; of an animation the first frame counts; colour profiles are not applied. A file that is cut
short or does not hold what its header says is refused.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from models.clipself.pipeline.headers import announced_size, too_little
from models.errors import InputError

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP")
_SHORT = "the image is cut short: its header claims more pixels than it holds"
HINT = "send a whole JPEG, PNG or WebP file"
WHITE = (255, 255, 255)
_ORIENTATION = 0x0112
_TURNS: dict[Any, Image.Transpose] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ONE_READER = Lock()
Image.MAX_IMAGE_PIXELS = None  # the limit is ours, and told before anything is decoded
_TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")


def read_picture(data: bytes, field: str, max_pixels: int) -> Pixels:
    """Raises InputError (image_invalid, image_too_large)."""
    if not data:
        raise InputError("image_invalid", "the image has no bytes", field=field, hint=HINT)
    _check_size(announced_size(data), field, max_pixels)  # of some files Pillow makes all the room before telling
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size(image.size, field, max_pixels)
            if too_little(data):
                raise InputError("image_invalid", _SHORT, field=field, hint=HINT)
            return _rgb(_upright(image))
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError("image_invalid", _what(data), field=field, hint=HINT) from None
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, OverflowError, MemoryError) as fault:
        reason = str(fault).split("\n")[0][:80] or type(fault).__name__
        raise InputError("image_invalid", f"the image cannot be decoded: {reason}", field=field, hint=HINT) from None


def _check_size(size: tuple[int, int] | None, field: str, max_pixels: int) -> None:
    if size is None:
        return
    width, height = size
    if width < 1 or height < 1:
        raise InputError("image_invalid", f"the image is {width} x {height} pixels", field=field, hint=HINT)
    if width * height > max_pixels:
        raise InputError(
            "image_too_large",
            f"the image is {width} x {height} = {width * height} pixels, the limit is {max_pixels}",
            field=field,
            hint="scale it down before sending; the network sees no more than its input size",
        )


def _upright(image: Image.Image) -> Image.Image:
    """The decoded image, turned as its EXIF data says; unreadable EXIF data turn nothing."""
    image.load()
    turn = _TURNS.get(_orientation(image))
    return image if turn is None else image.transpose(turn)


def _orientation(image: Image.Image) -> Any:
    with _ONE_READER, warnings.catch_warnings():  # the filters are the whole process's
        warnings.simplefilter("ignore")
        try:
            return image.getexif().get(_ORIENTATION)
        except (OSError, ValueError, SyntaxError, KeyError, TypeError, AttributeError, struct.error, OverflowError):
            return None


def _rgb(image: Image.Image) -> Pixels:
    if image.mode.startswith("I") or image.mode == "F":
        return np.repeat(_eight_bits(np.asarray(image))[..., None], 3, axis=-1)
    if image.mode in _TRANSPARENT or "transparency" in image.info:
        shown = image.convert("RGBA")
        flat = Image.new("RGBA", shown.size, (*WHITE, 255))
        flat.alpha_composite(shown)
        image = flat
    return np.array(image.convert("RGB"), dtype=np.uint8)


def _eight_bits(values: npt.NDArray[np.generic]) -> Pixels:
    """16-bit grey, 0..65535 -> 0..255, rounded."""
    wide = np.clip(values.astype(np.float32), 0, 65535)
    return np.asarray(np.round(wide / 257), dtype=np.uint8)


def _what(data: bytes) -> str:
    for name, known in _KNOWN.items():
        if known(data):
            return f"the image is {name}, which is not read here"
    return "these bytes are no image that is read here"


_KNOWN: dict[str, Callable[[bytes], bool]] = {
    "a GIF": lambda data: data[:4] == b"GIF8",
    "a TIFF": lambda data: data[:4] in (b"II*\0", b"MM\0*"),
    "a BMP": lambda data: data[:2] == b"BM",
    "an SVG or other text": lambda data: data.lstrip()[:1] == b"<",
    "a HEIC or AVIF": lambda data: data[4:8] == b"ftyp",
    "a PDF": lambda data: data[:5] == b"%PDF-",
    "an address; none is ever fetched": lambda data: data[:4].lower() in (b"http", b"file", b"ftp:"),
    "a JPEG, PNG or WebP with a damaged header": lambda data: (
        data[:2] == b"\xff\xd8" or data[:4] == b"\x89PNG" or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    ),
}
