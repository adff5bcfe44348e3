"""Image files as people have them: an answer as a viewer would show it, or a refusal that says why. No server."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from models.clipself.pipeline.picture import read_picture
from models.errors import InputError

WIDTH, HEIGHT = 40, 24
LIMIT = 1_000_000


def scene() -> Image.Image:
    """Left half red, right half blue, a green stripe on top: any turn or swap shows."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    pixels[:, : WIDTH // 2], pixels[:, WIDTH // 2 :] = (200, 30, 30), (30, 30, 200)
    pixels[:6] = (30, 180, 30)
    return Image.fromarray(pixels)


def written(image: Image.Image, form: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def turned(orientation: int, form: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return written(scene(), form, exif=exif, quality=95)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def lying_png() -> bytes:
    """The header says twice the rows that are there."""
    return (
        png_header(WIDTH, 2 * HEIGHT)
        + chunk(b"IDAT", zlib.compress(b"\0" * HEIGHT * (1 + 3 * WIDTH)))
        + chunk(b"IEND", b"")
    )


def taller_jpeg() -> bytes:
    """A JPEG whose frame header claims more rows than were coded."""
    data = bytearray(written(scene(), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 7] = struct.pack(">H", 4000)
    return bytes(data)


def grey16() -> Image.Image:
    return Image.fromarray(np.asarray(scene().convert("L")).astype(np.uint16) * 257)


def with_alpha() -> Image.Image:
    image = scene().convert("RGBA")
    image.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, WIDTH).astype(np.uint8), (HEIGHT, 1))))
    return image


def webp_header(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


ANSWERED: dict[str, Callable[[], bytes]] = {
    "jpeg": lambda: written(scene(), "JPEG", quality=95),
    "jpeg, progressive": lambda: written(scene(), "JPEG", quality=95, progressive=True),
    "jpeg, grey": lambda: written(scene().convert("L"), "JPEG"),
    "jpeg, CMYK": lambda: written(scene().convert("CMYK"), "JPEG", quality=95),
    "jpeg, 1 pixel": lambda: written(scene().resize((1, 1)), "JPEG"),
    **{f"jpeg, orientation {i}": (lambda i=i: turned(i, "JPEG")) for i in range(1, 9)},  # type: ignore[misc]
    "jpeg, orientation of no meaning": lambda: turned(99, "JPEG"),
    "jpeg, damaged EXIF": lambda: turned(6, "JPEG").replace(b"Exif\0\0MM", b"Exif\0\0ZZ"),
    "jpeg, bytes behind the end": lambda: written(scene(), "JPEG") + b"<script>" * 50,
    "png": lambda: written(scene(), "PNG"),
    "png, interlaced size 1 x 900": lambda: written(scene().resize((1, 900)), "PNG"),
    "png, 1 bit": lambda: written(scene().convert("1"), "PNG"),
    "png, grey": lambda: written(scene().convert("L"), "PNG"),
    "png, grey and alpha": lambda: written(with_alpha().convert("LA"), "PNG"),
    "png, 16 bit grey": lambda: written(grey16(), "PNG"),
    "png, palette": lambda: written(scene().quantize(8), "PNG"),
    "png, palette with a transparent colour": lambda: written(scene().quantize(8), "PNG", transparency=0),
    "png, palette with alphas": lambda: written(scene().quantize(4), "PNG", transparency=b"\0\x80\xff\xff"),
    "png, alpha": lambda: written(with_alpha(), "PNG"),
    "png, orientation 6": lambda: turned(6, "PNG"),
    "png, two frames": lambda: written(scene(), "PNG", save_all=True, append_images=[scene().rotate(180)]),
    "webp": lambda: written(scene(), "WEBP", quality=95),
    "webp, lossless with alpha": lambda: written(with_alpha(), "WEBP", lossless=True),
    "webp, two frames": lambda: written(scene(), "WEBP", save_all=True, append_images=[scene().rotate(180)]),
}
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "image_invalid"),
    "noise": (lambda: np.random.default_rng(0).bytes(500), "image_invalid"),
    "jpeg, cut short": (lambda: written(scene(), "JPEG")[:-200], "image_invalid"),
    "jpeg, header alone": (lambda: written(scene(), "JPEG")[:30], "image_invalid"),
    "jpeg, taller than coded": (taller_jpeg, "image_invalid"),
    "png, cut short": (lambda: written(scene(), "PNG")[:-40], "image_invalid"),
    "png, wrong checksum": (lambda: written(scene(), "PNG").replace(b"IHDR", b"IHDX"), "image_invalid"),
    "png, more rows than data": (lying_png, "image_invalid"),
    "png, no size": (lambda: png_header(0, 5) + chunk(b"IEND", b""), "image_invalid"),
    "png, bomb": (lambda: png_header(60_000, 60_000) + chunk(b"IDAT", zlib.compress(b"\0" * 999)), "image_too_large"),
    "png, 4 billion wide": (lambda: png_header(2**31 - 1, 2), "image_too_large"),
    "webp, cut short": (lambda: written(scene(), "WEBP")[:-30], "image_invalid"),
    "webp, bomb": (lambda: webp_header(16_000, 16_000), "image_too_large"),
    "gif": (lambda: written(scene().quantize(8), "GIF"), "image_invalid"),
    "tiff": (lambda: written(scene(), "TIFF"), "image_invalid"),
    "bmp": (lambda: written(scene(), "BMP"), "image_invalid"),
    "svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image_invalid"),
    "an address": (lambda: b"https://example.com/cat.jpg", "image_invalid"),
    "one pixel too many": (lambda: written(scene().resize((1001, 1000)), "PNG"), "image_too_large"),
}


def test_the_corpus_is_large_enough() -> None:
    assert len(ANSWERED) + len(REFUSED) >= 25


@pytest.mark.parametrize("name", ANSWERED)
def test_an_awkward_file_is_read(name: str) -> None:
    pixels = read_picture(ANSWERED[name](), "image", LIMIT)
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_image_is_refused_by_name(name: str) -> None:
    make, code = REFUSED[name]
    with pytest.raises(InputError) as refusal:
        read_picture(make(), "image", LIMIT)
    assert refusal.value.code == code
    assert refusal.value.field == "image"
    assert refusal.value.message


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_every_orientation_is_shown_upright(form: str) -> None:
    """Written turned as each tag describes, every file reads as the scene again."""
    upright = np.asarray(scene())
    undo = {
        1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    for orientation, turn in undo.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored = scene() if turn is None else scene().transpose(turn)
        pixels = read_picture(written(stored, form, exif=exif, quality=100), "image", LIMIT)
        assert pixels.shape == upright.shape
        assert np.abs(pixels[10:, [2, -3]].astype(int) - upright[10:, [2, -3]]).max() < 30, orientation


def test_transparent_pixels_lie_on_white() -> None:
    image = Image.new("RGBA", (4, 2), (10, 20, 30, 0))
    image.putpixel((0, 0), (10, 20, 30, 255))
    image.putpixel((1, 0), (0, 0, 0, 51))  # a fifth of black over white
    pixels = read_picture(written(image, "PNG"), "image", LIMIT)
    assert pixels[0, 0].tolist() == [10, 20, 30]
    assert pixels[0, 1].tolist() == [204, 204, 204]
    assert pixels[1, 3].tolist() == [255, 255, 255]


def test_sixteen_bits_are_rounded_to_eight() -> None:
    values = np.array([[0, 257, 128, 129, 65535]], dtype=np.uint16)
    pixels = read_picture(written(Image.fromarray(values), "PNG"), "image", LIMIT)
    assert pixels[0, :, 0].tolist() == [0, 1, 0, 1, 255]
    assert (pixels[..., 0] == pixels[..., 2]).all()


def test_cmyk_keeps_its_colours() -> None:
    pixels = read_picture(ANSWERED["jpeg, CMYK"](), "image", LIMIT)
    assert np.abs(pixels[15, 5].astype(int) - [200, 30, 30]).max() < 25


def test_the_first_frame_of_an_animation_counts() -> None:
    for name in ("png, two frames", "webp, two frames"):
        pixels = read_picture(ANSWERED[name](), "image", LIMIT)
        assert np.abs(pixels[15, 5].astype(int) - [200, 30, 30]).max() < 40


BOMBS = """
import resource, struct, sys, zlib
sys.path[:0] = [{root!r}, {here!r}]
import test_pictures as t
from models.clipself.pipeline.picture import read_picture
from models.errors import InputError
read_picture(t.ANSWERED["png"](), "image", 40_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = t.png_header(60_000, 60_000) + t.chunk(b"IDAT", zlib.compress(b"\\0" * 180_001, 9) * 3)
for bomb in (rows, t.webp_header(16_000, 16_000), t.png_header(2**31 - 1, 2**31 - 1)):
    try:
        read_picture(bomb, "image", 40_000_000)
    except InputError as refusal:
        assert refusal.code == "image_too_large", refusal.code
    else:
        raise SystemExit("a bomb was decoded")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_pixel_bomb_costs_less_than_50_mb() -> None:
    here = Path(__file__).parent
    script = BOMBS.format(root=str(here.parents[1]), here=str(here))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 50_000  # kilobytes
