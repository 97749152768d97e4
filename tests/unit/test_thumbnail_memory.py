"""The job type thumbnail: how much memory the largest pictures take, measured in processes of their own."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from shared.jobs._small_picture import LARGE_BYTES, MAX_PIXELS, PEAK_BYTES_PER_PIXEL
from shared.queues import QUEUES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")

MB = 1024 * 1024
LANE = QUEUES["thumbnails"]
PYTHON_AND_AWS = 300 * MB
"""Of the worker's memory, for the interpreter, boto3 and the files themselves."""

WEBP_OF_38_BYTES = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvP9/hFAdQ5CrUo4CBiOh/AAA=")

PEAK = """
import base64, re, sys
from concurrent.futures import ThreadPoolExecutor
from shared.jobs._small_picture import small_webp

def kept(what):
    return int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

pictures = [base64.b64decode(line) for line in sys.stdin]
small_webp(pictures.pop(), "to have everything loaded", 32, 32)
before = kept("VmRSS")
with ThreadPoolExecutor(4) as workers:
    for small in workers.map(lambda data: small_webp(data, "x", 320, 240), pictures):
        assert small
print(kept("VmHWM") - before)
"""


def peak_of(*pictures: bytes) -> int:
    """Bytes that a process takes at most while it makes these side by side, four at once."""
    warm = io.BytesIO()
    Image.new("RGB", (64, 64)).save(warm, "JPEG")
    lines = b"\n".join(base64.b64encode(data) for data in (*pictures, warm.getvalue()))
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", PEAK], input=lines, capture_output=True, check=False, cwd=root)
    assert ran.returncode == 0, ran.stderr.decode()
    return int(ran.stdout)


def saved(form: str, mode: str, width: int = 8000, height: int = 5000, **options: Any) -> bytes:
    data = io.BytesIO()
    Image.new("L", (width, height), 100).convert(mode).save(data, form, **options)
    return data.getvalue()


LARGEST: list[tuple[str, Callable[[], bytes]]] = [
    ("WEBP", lambda: WEBP_OF_38_BYTES),
    ("PNG", lambda: saved("PNG", "RGB", compress_level=1, transparency=(100, 100, 100))),
    ("GIF", lambda: saved("GIF", "P", transparency=0)),
    ("JPEG", lambda: saved("JPEG", "CMYK", progressive=True, subsampling=0, quality=50)),
    ("JPEG", lambda: saved("JPEG", "RGB", progressive=True, subsampling=0, quality=50)[:-2]),
]


@pytest.mark.parametrize(("form", "make"), LARGEST, ids=["webp", "png", "gif", "jpeg", "jpeg-without-end"])
def test_large_pictures_side_by_side_take_the_memory_of_one_and_no_more_than_is_said(
    form: str, make: Callable[[], bytes]
) -> None:
    peak = peak_of(*[make()] * 2)
    assert peak <= MAX_PIXELS * PEAK_BYTES_PER_PIXEL[form] + 32 * MB


def test_a_worker_full_of_the_hungriest_pictures_fits_into_its_lanes_memory() -> None:
    """One at the limit, and beside it as many as run at once of the largest that wait for nobody."""
    width = 4096
    height = LARGE_BYTES // PEAK_BYTES_PER_PIXEL["WEBP"] // width
    beside = saved("WEBP", "RGBA", width, height, lossless=True, method=0, quality=0)
    peak = peak_of(WEBP_OF_38_BYTES, *[beside] * (LANE.parallelism - 1), WEBP_OF_38_BYTES)
    assert peak <= LANE.memory_mb * MB - PYTHON_AND_AWS


def test_the_hungriest_that_the_limits_allow_fit_by_the_numbers_too() -> None:
    largest = MAX_PIXELS * max(PEAK_BYTES_PER_PIXEL.values())
    assert largest + (LANE.parallelism - 1) * LARGE_BYTES <= LANE.memory_mb * MB - PYTHON_AND_AWS
