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

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from models.errors import InputError

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP")
HINT = "send a whole JPEG, PNG or WebP file"
WHITE = (255, 255, 255)
_TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")


def read_picture(data: bytes, field: str, max_pixels: int) -> Pixels:
    """Raises InputError (image_invalid, image_too_large)."""
    if not data:
        raise InputError("image_invalid", "the image has no bytes", field=field, hint=HINT)
    _check_size(_webp_size(data), field, max_pixels)  # Pillow would make room for all of it before telling
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged EXIF and the like; what matters is refused below
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_size(image.size, field, max_pixels)
                return _rgb(_upright(image))
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError("image_invalid", _what(data), field=field, hint=HINT) from None
    except Image.DecompressionBombError:
        raise InputError(
            "image_too_large",
            f"the image has far more pixels than {max_pixels}",
            field=field,
            hint="send a smaller one",
        ) from None
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
    try:
        return ImageOps.exif_transpose(image)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, AttributeError, struct.error, OverflowError):
        return image


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


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Width and height a WebP file announces; None for other files and for headers cut short."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None
