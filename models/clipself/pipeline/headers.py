"""What an image file says before it is decoded, and whether it holds enough to be what it says.

Decoders are lenient: of a file whose header claims more rows than were coded they make grey or black ones. A PNG must
inflate to all of its rows; a JPEG must have at least one bit for each of its blocks.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of PNG's colour types
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))  # Adam7
_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_SCAN = 0xDA
_STEP = 1 << 16


def announced_size(data: bytes) -> tuple[int, int] | None:
    """Width and height a PNG or WebP announces; None for other files, and for headers cut short."""
    if data[:8] == _PNG and data[12:16] == b"IHDR" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp_size(data)
    return None


def too_little(data: bytes) -> bool:
    """Whether a PNG or JPEG cannot hold all the pixels its header claims."""
    if data[:8] == _PNG:
        return _png_bytes(data) < _png_needs(data)
    if data[:2] == _JPEG:
        return _jpeg_bits(data) < _jpeg_needs(data)
    return False


def _webp_size(data: bytes) -> tuple[int, int] | None:
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


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def _png_bytes(data: bytes) -> int:
    """Bytes the pixel data inflate to; counted, not kept."""
    stream, found = zlib.decompressobj(), 0
    try:
        for kind, part in _png_chunks(data):
            if kind == b"IDAT":
                found += len(stream.decompress(part, _STEP))
                while stream.unconsumed_tail:
                    found += len(stream.decompress(stream.unconsumed_tail, _STEP))
        return found + len(stream.flush())
    except zlib.error:
        return found


def _png_needs(data: bytes) -> int:
    """Bytes of all rows, a filter byte before each."""
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    bits = depth * _CHANNELS.get(colour, 1)
    if not interlaced:
        return int(height * (1 + (width * bits + 7) // 8))
    needs = 0
    for left, top, across, down in _PASSES:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        if columns > 0 and rows > 0:
            needs += rows * (1 + (columns * bits + 7) // 8)
    return needs


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker, first byte and length of each segment up to the first scan."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        yield marker, at + 4, length - 2
        if marker == _SCAN:
            return
        at += 2 + length if marker != 0xFF else 1  # fill bytes


def _jpeg_needs(data: bytes) -> int:
    """Blocks of 8 x 8 samples in all components."""
    for marker, first, length in _jpeg_segments(data):
        if marker in _FRAMES and length >= 6:
            height, width, parts = struct.unpack(">HHB", data[first + 1 : first + 6])
            factors = [data[first + 7 + 3 * i] for i in range(parts) if first + 7 + 3 * i < len(data)]
            most_wide = max((f >> 4 for f in factors), default=1) or 1
            most_high = max((f & 15 for f in factors), default=1) or 1
            units = -(-width // (8 * most_wide)) * -(-height // (8 * most_high))
            return (
                int(units * sum((f >> 4) * (f & 15) for f in factors))
                if len(factors) > 1
                else int(-(-width // 8) * -(-height // 8))
            )
    return 0


def _jpeg_bits(data: bytes) -> int:
    """Bits from the first scan on."""
    for marker, first, _ in _jpeg_segments(data):
        if marker == _SCAN:
            return 8 * (len(data) - first)
    return 8 * len(data)
