"""A stranger's picture made small: nothing is decoded before its size is known, and nothing but pixels remains."""

from __future__ import annotations

import io
import struct
import threading
import zlib
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import Any

from shared.errors import DeterministicFailure
from shared.jobs._jpeg import MAX_SCANS, scan, with_end

MAX_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 40_000_000
MAX_SIDE = 65_535
"""Of a JPEG and a GIF the formats' own. Every row costs a pointer, so that a PNG of 40,000,000 rows takes 950 MB."""

PEAK_BYTES_PER_PIXEL = {"WEBP": 16, "PNG": 12, "GIF": 9, "JPEG": 8, "MPO": 8}
"""What a decoder and the way from it take at most, as tests/unit/test_thumbnail_memory.py measures: WebP two canvases
and two copies whatever the file holds, PNG and GIF with a colour that stands for "transparent", JPEG a progressive one.
"""

LARGE_BYTES = 128 * 1024 * 1024
_one_large = threading.Lock()
"""Four pictures are made side by side in 2048 MB, and four large ones would not fit. So a process makes one of those at
a time, which costs no time to speak of: it has little more than one processor.
"""

_M_MMAP_THRESHOLD = -3  # malloc.h

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
QUALITY = 80

_JPEG = b"\xff\xd8"
_ORIENTATION = 0x0112
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What undoes each orientation of EXIF, in Pillow's words."""

_SIDEWAYS = frozenset(_TURNS[orientation] for orientation in (5, 6, 7, 8))
_BROKEN = (
    *(OSError, SyntaxError, EOFError, ValueError, TypeError, LookupError, ArithmeticError),
    *(struct.error, zlib.error),
)
"""What Pillow's decoders have been seen to raise for bytes that are no picture."""


def small_webp(data: bytes, name: str, width: int, height: int) -> bytes:
    """The picture as WebP, upright, within width × height pixels, its shape kept, never enlarged; of an animation the
    first frame. The same bytes for the same input (and the same Pillow). A large picture waits for another's end.

    Raises DeterministicFailure naming `name`: image-too-large, image-invalid.
    """
    from PIL import Image, UnidentifiedImageError

    if len(data) > MAX_BYTES:
        raise _too_large(f"{name}: {len(data)} bytes; up to {MAX_BYTES} are read")
    ended = True
    if data.startswith(_JPEG):
        scans, ended = scan(data)
        if scans > MAX_SCANS:
            raise _too_large(f"{name}: a JPEG of {scans} scans; up to {MAX_SCANS} are decoded")
    # Pillow's own guard, at the same number for every thread: some decoders reserve their memory while they open a
    # file, before anyone can ask for its size. It raises at twice the number and warns between, where we refuse.
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    _give_memory_back()
    try:
        with _opened(data, name) as image, _turn_in_line(image):
            if ended:
                return _encoded(_upright(image, width, height))
            with _opened(with_end(data), name) as whole:
                return _encoded(_upright(whole, width, height))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(f"{name}: {error}") from error
    except UnidentifiedImageError as error:
        raise _invalid(f"{name}: not a {', '.join(FORMATS)}") from error
    except _BROKEN as error:
        raise _invalid(f"{name}: broken ({error})") from error


@cache
def _give_memory_back() -> None:
    """glibc raises the size from which memory goes straight back to the system to what was freed last, up to 32 MB.
    Then Pillow's blocks of 16 MB stay with the thread that freed them: four pictures, one after the other on four
    threads, left 1.2 GB behind (measured). Said once, the size stays; where there is no glibc, there is no such call.
    """
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1024 * 1024)


def _too_large(why: str) -> DeterministicFailure:
    return DeterministicFailure(why, code="image-too-large")


def _invalid(why: str) -> DeterministicFailure:
    return DeterministicFailure(why, code="image-invalid")


def _opened(data: bytes, name: str) -> Any:
    """Its size known and small enough; nothing is decoded yet, nor is the memory touched that WebP reserves."""
    from PIL import Image

    image = Image.open(io.BytesIO(data), formats=FORMATS)
    if image.width * image.height > MAX_PIXELS:
        raise _too_large(f"{name}: {image.width} × {image.height} pixels; up to {MAX_PIXELS} are decoded")
    if max(image.size) > MAX_SIDE:
        raise _too_large(f"{name}: {image.width} × {image.height} pixels; a side has up to {MAX_SIDE}")
    return image


def _turn_in_line(image: Any) -> AbstractContextManager[Any]:
    peak = image.width * image.height * PEAK_BYTES_PER_PIXEL[image.format]
    return _one_large if peak > LARGE_BYTES else nullcontext()


def _upright(image: Any, width: int, height: int) -> Any:
    """Turned as its camera says. Small first: to turn and to convert 40 megapixels costs a copy of each.

    The tag is read before anything else, because whatever makes a new image (a conversion, a change of colour space)
    may leave it behind.
    """
    from PIL import Image

    how = _turn_back(image)
    if image.mode.startswith("I;16"):  # `convert` alone cuts every value at 255, which leaves white
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    if image.mode not in ("RGB", "RGBA", "CMYK", "L", "LA") or "transparency" in image.info:
        # A palette cannot be averaged, nor can one colour that stands for "transparent".
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    image.thumbnail((height, width) if how in _SIDEWAYS else (width, height), Image.Resampling.LANCZOS)
    image = _in_srgb(image)
    return image if how is None else image.transpose(Image.Transpose[how])


def _turn_back(image: Any) -> str | None:
    if image.format == "PNG":
        image.load()  # the tag may stand behind the pixels, whose faults are not the tag's
    with suppress(*_BROKEN):  # cameras and editors write all sorts of things there
        return _TURNS.get(image.getexif().get(_ORIENTATION))
    return None


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
