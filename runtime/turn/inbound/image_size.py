"""How many pixels an image has, by its header, without unpacking anything. Pure.

PNG, GIF, JPEG and WebP as their specifications lay them out.
"""

from __future__ import annotations

import struct

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers of a frame, which has the size."""
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height; `None` for what is none of these images, or has no whole header."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return _sound(*struct.unpack_from(">II", data, 16))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _sound(*struct.unpack_from("<HH", data, 6))
        if data.startswith(b"\xff\xd8"):
            return _of_jpeg(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _of_webp(data)
    except struct.error:
        return None
    return None


def _of_jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        mark, kind = struct.unpack_from(">BB", data, at)
        if mark != 0xFF:
            return None
        if kind == 0xFF:
            at += 1
        elif kind in _ALONE:
            at += 2
        elif kind in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return _sound(width, height)
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]


def _of_webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return _sound(width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L" and data[20:21] == b"\x2f":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        low = struct.unpack_from("<HBHB", data, 24)
        return (low[0] | low[1] << 16) + 1, (low[2] | low[3] << 16) + 1
    return None


def _sound(width: int, height: int) -> tuple[int, int] | None:
    return (width, height) if width and height else None
