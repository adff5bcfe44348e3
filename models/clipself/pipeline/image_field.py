"""The field `image`: a file in base64 or bytes, raw pixels, or what the network itself takes. Never an address.

`RawImage` and `PreparedImage` of `services.detection.schemas` describe the two objects.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from models.clipself.image import Pixels
from models.clipself.pipeline.network_input import NetworkInput
from models.clipself.pipeline.picture import read_picture
from models.clipself.pipeline.request import Limits
from models.clipself.pipeline.spec import DetectSpec
from models.errors import InputError

FIELD = "image"
HINT = "send base64 of a JPEG, PNG or WebP file, or {shape, data} of raw pixels"
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_DATA = re.compile(r"\s*data:[\w/+.;=-]*;base64,", re.IGNORECASE)

Prepare = Callable[[Pixels], NetworkInput]


def read_image(sent: Any, limits: Limits, prepare: Prepare, spec: DetectSpec) -> NetworkInput:
    """The image as the network takes it. Raises InputError (image_invalid, image_too_large, invalid_request)."""
    if isinstance(sent, dict) and sent.get("dtype") == "float32":
        _only(sent, ("dtype", "shape", "data", "valid", "original"))
        return _prepared(sent, limits, spec)
    return prepare(read_pixels(sent, limits))


def read_pixels(sent: Any, limits: Limits) -> Pixels:
    """The image as RGB uint8 [H, W, 3]: a file's bytes, base64 of them, or raw pixels. Raises InputError."""
    if isinstance(sent, bytes):
        return read_picture(sent, FIELD, limits.max_pixels)
    if isinstance(sent, str):
        return read_picture(_decoded(sent), FIELD, limits.max_pixels)
    if isinstance(sent, np.ndarray):
        return _rgb(sent, limits.max_pixels)
    if isinstance(sent, dict):
        return _from_object(sent, limits)
    what = "missing" if sent is None else "of an unknown kind"
    raise InputError("image_invalid", f"the image is {what}", field=FIELD, hint=HINT)


def _decoded(text: str) -> bytes:
    if _ADDRESS.match(text):
        raise InputError("image_invalid", "the image is an address; none is ever fetched", field=FIELD, hint=HINT)
    if found := _DATA.match(text):
        text = text[found.end() :]
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InputError("image_invalid", "the image is not base64", field=FIELD, hint=HINT) from None


def _from_object(sent: dict[str, Any], limits: Limits) -> Pixels:
    if sent.get("dtype", "uint8") != "uint8":
        raise InputError(
            "image_invalid", f"pixels are {str(sent['dtype'])[:40]!r}, expected uint8", field="image.dtype", hint=HINT
        )
    _only(sent, ("dtype", "shape", "data"))
    shape = _sizes(sent.get("shape"), "image.shape", (2, 3))
    _within(shape, limits.max_pixels)
    return _rgb(_tensor(sent, shape, np.dtype(np.uint8)), limits.max_pixels)


def _rgb(pixels: npt.NDArray[Any], max_pixels: int) -> Pixels:
    """[H, W], [H, W, 1] or [H, W, 3] as RGB."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3)):
        raise InputError(
            "image_invalid", f"raw pixels have the shape {list(pixels.shape)[:5]}", field="image.shape",
            hint="[height, width], [height, width, 1] or [height, width, 3], uint8",
        )  # fmt: skip
    _within(pixels.shape, max_pixels)
    deep = pixels[..., None] if pixels.ndim == 2 else pixels
    return np.ascontiguousarray(np.broadcast_to(deep, (*deep.shape[:2], 3)))


def _within(shape: tuple[int, ...], max_pixels: int) -> None:
    if 0 in shape:
        raise InputError("image_invalid", "the image has no pixels", field="image.shape")
    if shape[0] * shape[1] > max_pixels:
        raise InputError(
            "image_too_large", f"the image has {shape[0] * shape[1]} pixels, the limit is {max_pixels}", field="image"
        )


def _prepared(sent: dict[str, Any], limits: Limits, spec: DetectSpec) -> NetworkInput:
    shape = _sizes(sent.get("shape"), "image.shape", (3,))
    if shape[0] != 3 or shape[1] != shape[2] or shape[1] % spec.patch_size or shape[1] != spec.side(shape[1]):
        raise InputError(
            "image_invalid", f"what the network takes is [3, S, S], got {list(shape)}", field="image.shape",
            hint=f"S is a multiple of {spec.patch_size}, at least {spec.side(1)}",
        )  # fmt: skip
    if shape[1] > limits.max_side:
        raise InputError("image_too_large", f"S is {shape[1]}, the limit is {limits.max_side}", field="image.shape")
    valid = _sizes(sent.get("valid"), "image.valid", (2,))
    original = _sizes(sent.get("original"), "image.original", (2,))
    if max(valid) > shape[1] or 0 in valid or 0 in original:
        raise InputError("image_invalid", "the picture does not lie inside its square", field="image.valid")
    _within(original, limits.max_pixels)
    pixels = _tensor(sent, shape, np.dtype("<f4"))
    if not np.isfinite(pixels).all():
        raise InputError("image_invalid", "the prepared image holds NaN or infinity", field="image.data")
    inside, whole = (valid[0], valid[1]), (original[0], original[1])
    return NetworkInput(pixels, inside, (valid[1] / original[1], valid[0] / original[0]), whole)


def _tensor(sent: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    data = sent.get("data")
    if not isinstance(data, str):
        raise InputError("image_invalid", "data must be base64 of the bytes", field="image.data", hint=HINT)
    raw, expected = _decoded(data), math.prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise InputError(
            "image_invalid", f"data has {len(raw)} bytes, the shape {list(shape)} needs {expected}", field="image.data"
        )
    return np.frombuffer(raw, dtype).reshape(shape)


def _sizes(value: Any, field: str, lengths: tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) not in lengths or not all(type(n) is int and n >= 0 for n in value):
        raise InputError(
            "image_invalid", f"{field} must be {' or '.join(map(str, lengths))} whole numbers", field=field
        )
    return tuple(value)


def _only(sent: dict[str, Any], known: tuple[str, ...]) -> None:
    if unknown := sorted(set(sent) - set(known)):
        raise InputError(
            "invalid_request", f"an image has no {unknown[0][:40]!r}", field="image", hint=f"it has {', '.join(known)}"
        )
