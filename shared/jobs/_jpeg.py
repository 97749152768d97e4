"""What libjpeg takes for granted of a JPEG and strangers do not keep: few scans, all rows, an end."""

from __future__ import annotations

import io
import random
import re

MAX_SCANS = 100
"""A progressive JPEG paints over itself: each scan may take 80 bytes and costs a pass over all pixels (20 ms at 40
megapixels, measured), so that a file of 1 MB could keep a worker busy for minutes. Cameras and browsers use about ten.
"""

_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd7\xff])")  # not a byte of data, nor one without a length
_SCAN, _END = b"\xda", b"\xd9"
_DICE = random.Random(1)
_NOISE = b"".join(b"\0%b\xff%c" % (_DICE.randbytes(256).replace(b"\xff", b"\0"), mark) for mark in range(0xD0, 0xD8))
"""Data, and every restart marker that a decoder may be waiting for."""

_COMPARED = (1024, 1024)
"""Pixels, about: libjpeg scales while it decodes, which takes less memory."""


def scan(jpeg: bytes) -> tuple[int, bool]:
    """Scans before the end of the picture, its segments skipped as libjpeg skips them, and whether it has an end; more
    may follow (a phone puts a film there).
    """
    found, position = 0, 2
    while (marker := _MARKER.search(jpeg, position)) and marker[1] != _END:
        found += marker[1] == _SCAN
        position = marker.end() + max(int.from_bytes(jpeg[marker.end() : marker.end() + 2], "big"), 2)
    return found, marker is not None


def with_end(jpeg: bytes) -> bytes:
    """The JPEG with the end marker that it lacks. Raises ValueError where rows are missing too.

    libjpeg paints missing rows grey and says so in a warning that Pillow keeps to itself. But where rows are missing
    it takes what stands there for them, and where none is missing it skips that. So the picture is decoded twice, once
    with noise before the marker, and must come out the same.
    """
    had = jpeg.rstrip(b"\xff")  # half a marker
    ended = had + b"\xff" + _END
    if _pixels(ended) != _pixels(had + _NOISE + b"\xff" + _END):
        raise ValueError("its last rows are missing")
    return ended


def _pixels(jpeg: bytes) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        image.draft(None, _COMPARED)
        return image.tobytes()
