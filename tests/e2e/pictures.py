"""Pictures to make small: an honest one, and one that lies in wait for whoever decodes it."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

RED, BLUE = (200, 30, 30), (30, 30, 200)


def a_jpeg(width: int, height: int) -> bytes:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    data = io.BytesIO()
    image.save(data, "JPEG")
    return data.getvalue()


def a_bomb(width: int, height: int) -> bytes:
    """A PNG of under 100 bytes that declares this many pixels, in colour and with transparency."""
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b""))
    )
