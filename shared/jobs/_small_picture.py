"""A stranger's picture made small: nothing is decoded before its size is known, and nothing but pixels remains."""

from __future__ import annotations

import io
import re
import struct
import zlib
from contextlib import suppress
from typing import Any

from shared.errors import DeterministicFailure

MAX_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 40_000_000
"""Four jobs of one worker decode side by side in 2048 MB, at 4 bytes a pixel and at times in two copies: measured,
1.4 GB for four pictures of this size with transparency.
"""

MAX_SCANS = 100
"""A progressive JPEG paints over itself: each scan may take 80 bytes and costs a pass over all pixels (20 ms at 40
megapixels, measured), so that a file of 1 MB could keep a worker busy for minutes. Cameras and browsers use about ten.
"""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
QUALITY = 80

_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd7\xff])")  # not a byte of data, nor one without a length
_SCAN, _END = b"\xda", b"\xd9"
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)
_BROKEN = (
    *(OSError, SyntaxError, EOFError, ValueError, TypeError, LookupError, ArithmeticError),
    *(struct.error, zlib.error),
)
"""What Pillow's decoders have been seen to raise for bytes that are no picture."""


def small_webp(data: bytes, name: str, width: int, height: int) -> bytes:
    """The picture as WebP, upright, within width × height pixels, its shape kept, never enlarged; of an animation the
    first frame. The same bytes for the same input (and the same Pillow).

    Raises DeterministicFailure naming `name`: image-too-large, image-invalid.
    """
    from PIL import Image, UnidentifiedImageError

    if len(data) > MAX_BYTES:
        raise _too_large(f"{name}: {len(data)} bytes; up to {MAX_BYTES} are read")
    if data.startswith(b"\xff\xd8") and (scans := _scans(data)) > MAX_SCANS:
        raise _too_large(f"{name}: a JPEG of {scans} scans; up to {MAX_SCANS} are decoded")
    # Pillow's own guard, at the same number for every thread: some decoders reserve their memory while they open a
    # file, before anyone can ask for its size. It raises at twice the number and warns between, where we refuse.
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise _too_large(f"{name}: {image.width} × {image.height} pixels; up to {MAX_PIXELS} are decoded")
            return _encoded(_upright(image, width, height))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(f"{name}: {error}") from error
    except UnidentifiedImageError as error:
        raise _invalid(f"{name}: not a {', '.join(FORMATS)}") from error
    except _BROKEN as error:
        raise _invalid(f"{name}: broken ({error})") from error


def _too_large(why: str) -> DeterministicFailure:
    return DeterministicFailure(why, code="image-too-large")


def _invalid(why: str) -> DeterministicFailure:
    return DeterministicFailure(why, code="image-invalid")


def _scans(jpeg: bytes) -> int:
    """Scans before the end of the picture, its segments skipped as libjpeg skips them; more may follow (a phone puts
    a film there).
    """
    scans, position = 0, 2
    while (marker := _MARKER.search(jpeg, position)) and marker[1] != _END:
        scans += marker[1] == _SCAN
        position = marker.end() + max(int.from_bytes(jpeg[marker.end() : marker.end() + 2], "big"), 2)
    return scans


def _upright(image: Any, width: int, height: int) -> Any:
    """Turned as its camera says. Small first: to turn and to convert 40 megapixels costs a copy of each."""
    from PIL import Image, ImageOps

    sideways = image.getexif().get(_ORIENTATION) in _SIDEWAYS
    if image.mode.startswith("I;16"):  # `convert` alone cuts every value at 255, which leaves white
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    if image.mode not in ("RGB", "RGBA", "CMYK", "L", "LA") or "transparency" in image.info:
        # A palette cannot be averaged, nor can one colour that stands for "transparent".
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    image.thumbnail((height, width) if sideways else (width, height), Image.Resampling.LANCZOS)
    return ImageOps.exif_transpose(_in_srgb(image))


def _in_srgb(image: Any) -> Any:
    """Without its profile a picture is taken for sRGB, and those of most phones, which are not, would look pale."""
    from PIL import ImageCms

    profile, mode = image.info.get("icc_profile"), "RGBA" if image.has_transparency_data else "RGB"
    if profile and image.mode != "L":
        # A profile that does not fit its picture is common, and no reason to refuse it.
        with suppress(ImageCms.PyCMSError, OSError, ValueError):
            image = ImageCms.profileToProfile(
                image, io.BytesIO(profile), ImageCms.createProfile("sRGB"), outputMode=mode
            )
    return image if image.mode == mode else image.convert(mode)


def _encoded(image: Any) -> bytes:
    """Without anything the source said besides its pixels: a place, a camera, a name."""
    encoded = io.BytesIO()
    image.save(encoded, "WEBP", quality=QUALITY, method=4, icc_profile=b"", exif=b"", xmp=b"")
    return encoded.getvalue()
