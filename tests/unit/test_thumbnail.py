"""The job type thumbnail: what it writes, and what it will not decode."""

from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from shared.adapters.memory_files import MemoryFiles
from shared.domain.run import StoredFile
from shared.errors import DeterministicFailure
from shared.jobs import Catalogue
from shared.jobs._jpeg import MAX_SCANS
from shared.jobs._small_picture import MAX_BYTES, MAX_PIXELS, MAX_SIDE, small_webp
from shared.jobs.thumbnail import Thumbnail, make_thumbnail
from shared.queues import QUEUES
from tests.handling import HandledRun

SOURCE = "uploads/acme-eu/2026/logo.png"
TARGET = "thumbnails/acme-eu/2026/logo.png/320x240.webp"
PAYLOAD = {"tenantId": "acme-eu", "sourceKey": SOURCE, "width": 320, "height": 240}
FORMATS = ["JPEG", "PNG", "WEBP", "GIF"]
RED, BLUE = (200, 30, 30), (30, 30, 200)
THUMBNAIL = Catalogue().get("thumbnail")
assert THUMBNAIL is not None


def picture(width: int = 800, height: int = 400, form: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    """Red above, blue below."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (0, height // 2, width, height))
    data = io.BytesIO()
    image.convert(mode).save(data, form, **options)
    return data.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def like(found: Any, expected: tuple[int, ...]) -> bool:
    return all(abs(a - b) < 40 for a, b in zip(found[:3], expected, strict=True))


def refusal(data: bytes, width: int = 320, height: int = 240) -> DeterministicFailure:
    with pytest.raises(DeterministicFailure) as raised:
        small_webp(data, SOURCE, width, height)
    assert str(raised.value).startswith(f"{SOURCE}: ")
    return raised.value


def faults(**fields: Any) -> list[str]:
    _, found = THUMBNAIL.accept(PAYLOAD | fields)
    return [fault.pointer for fault in found]


# What it writes


@pytest.mark.parametrize("form", FORMATS)
def test_a_thumbnail_of_each_format_lies_under_its_key_small_and_in_shape(form: str) -> None:
    run = HandledRun()
    run.files.write(SOURCE, picture(form=form), "image/any")

    stored = make_thumbnail(Thumbnail.model_validate(PAYLOAD), run)

    data = run.files.read(TARGET)
    assert stored == StoredFile(TARGET, len(data), "image/webp", stored.version)
    small = opened(data)
    assert (small.format, small.size) == ("WEBP", (320, 160))
    assert like(small.getpixel((160, 20)), RED)
    assert like(small.getpixel((160, 140)), BLUE)


def test_a_thumbnail_stays_the_one_its_job_made_when_the_picture_is_replaced() -> None:
    files = MemoryFiles()
    files.write(SOURCE, picture(640, 320), "image/png")
    first = make_thumbnail(Thumbnail.model_validate(PAYLOAD), HandledRun(files=files))
    was = files.read(TARGET)
    files.write(SOURCE, picture(320, 320), "image/png")

    second = make_thumbnail(Thumbnail.model_validate(PAYLOAD), HandledRun(files=files))

    assert first.key == second.key
    assert files.read_version(first.key, first.version) == was != files.read(TARGET)


def test_a_small_picture_is_never_enlarged() -> None:
    assert opened(small_webp(picture(40, 20), SOURCE, 320, 240)).size == (40, 20)


@pytest.mark.parametrize(("width", "height"), [(30_000, 1), (1, 30_000), (1, 1)])
def test_a_line_of_pixels_stays_a_picture(width: int, height: int) -> None:
    small = opened(small_webp(picture(width, height), SOURCE, 16, 16))
    assert 1 <= small.width <= 16
    assert 1 <= small.height <= 16


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_kind_of_png_keeps_its_brightness(mode: str) -> None:
    data = io.BytesIO()
    if mode == "I;16":
        Image.new(mode, (64, 64), 0x8000).save(data, "PNG")
    else:
        Image.new("L", (64, 64), 128).convert("RGB").convert(mode).save(data, "PNG")
    small = opened(small_webp(data.getvalue(), SOURCE, 16, 16)).convert("L")
    pixels = list(small.get_flattened_data())
    assert 100 < sum(pixels) / len(pixels) < 156


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_was_transparent_stays_so(mode: str) -> None:
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    image.paste((255, 255, 255, 255), (0, 32, 64, 64))
    data = io.BytesIO()
    image.convert(mode).save(data, "PNG")
    small = opened(small_webp(data.getvalue(), SOURCE, 16, 16))
    assert small.mode == "RGBA"
    assert small.getpixel((8, 2))[3] < 10
    assert small.getpixel((8, 13))[3] > 245


def test_a_colour_that_stands_for_transparent_is_never_mixed_with_the_others() -> None:
    image = Image.new("RGB", (64, 64), (255, 0, 255))
    for column in range(0, 64, 2):
        image.paste((0, 128, 0), (column, 0, column + 1, 64))
    data = io.BytesIO()
    image.save(data, "PNG", transparency=(255, 0, 255))
    red, green, blue, opacity = opened(small_webp(data.getvalue(), SOURCE, 16, 16)).getpixel((8, 8))
    assert like((red, green, blue), (0, 128, 0))
    assert 100 < opacity < 156


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_stands_as_its_camera_was_held(orientation: int) -> None:
    """Red is where the viewer's top is, once the eight orientations of EXIF are undone."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    small = opened(small_webp(picture(800, 400, "JPEG", exif=exif), SOURCE, 100, 60))
    assert small.size == ((30, 60) if orientation >= 5 else (100, 50))  # the box is the viewer's, not the camera's
    top, bottom, left, right = (50, 5), (50, 45), (3, 30), (27, 30)
    red_at = {1: top, 2: top, 3: bottom, 4: bottom, 5: left, 6: right, 7: right, 8: left}
    assert like(small.getpixel(red_at[orientation]), RED)


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
KINDS = [
    *(("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "L"), ("PNG", "LA")),
    *(("WEBP", "RGB"), ("WEBP", "RGBA")),
]


@pytest.mark.parametrize(("form", "mode"), KINDS)
@pytest.mark.parametrize("profile", [SRGB, None, b"garbage"], ids=["fits", "none", "garbage"])
def test_every_kind_of_picture_is_turned_and_its_box_with_it(form: str, mode: str, profile: bytes | None) -> None:
    """Whatever makes a new image of it on the way: a colour profile that fits, a palette, transparency."""
    upright = Image.new("RGB", (80, 60), "black")
    upright.paste("white", (0, 0, 40, 30))  # a corner that no turn leaves in its place
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = io.BytesIO()
        as_the_camera_held_it(upright, orientation).convert(mode).save(data, form, exif=exif, icc_profile=profile)
        small = opened(small_webp(data.getvalue(), SOURCE, 40, 40)).convert("L")
        corners = [small.getpixel(at) > 128 for at in ((8, 8), (32, 8), (8, 22), (32, 22))]
        assert (small.size, corners) == ((40, 30), [True, False, False, False]), orientation


def as_the_camera_held_it(image: Image.Image, orientation: int) -> Image.Image:
    """So that this orientation in its EXIF makes the picture upright again (EXIF 2.3, 4.6.4)."""
    turned = {
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.ROTATE_90, Image.Transpose.FLIP_TOP_BOTTOM],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.ROTATE_270, Image.Transpose.FLIP_TOP_BOTTOM],
        8: [Image.Transpose.ROTATE_270],
    }
    for step in turned.get(orientation, []):
        image = image.transpose(step)
    return image


def test_a_phones_portrait_stands_upright() -> None:
    """64 × 32 as the sensor saw it, orientation 6, with the colour profile that phones write."""
    exif = Image.Exif()
    exif[0x0112] = 6
    landscape = Image.new("RGB", (64, 32), BLUE)
    landscape.paste(RED, (0, 0, 32, 32))
    data = io.BytesIO()
    landscape.save(data, "JPEG", exif=exif, icc_profile=SRGB)
    small = opened(small_webp(data.getvalue(), SOURCE, 16, 100))
    assert small.size == (16, 32)
    assert like(small.getpixel((8, 4)), RED)
    assert like(small.getpixel((8, 28)), BLUE)


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0garbage", b"Exif\0\0", b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x09"]
)
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_tag_that_nobody_can_read_turns_nothing(form: str, exif: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert opened(small_webp(picture(80, 40, form, exif=exif), SOURCE, 40, 40)).size == (40, 20)


def test_of_an_animation_the_first_frame_is_shown() -> None:
    frames = [Image.new("RGB", (64, 64), colour) for colour in (RED, BLUE, BLUE)]
    for form in ("GIF", "WEBP", "PNG"):
        data = io.BytesIO()
        frames[0].save(data, form, save_all=True, append_images=frames[1:], duration=50)
        small = opened(small_webp(data.getvalue(), SOURCE, 16, 16))
        assert getattr(small, "n_frames", 1) == 1
        assert like(small.getpixel((8, 8)), RED), form


def test_nothing_the_camera_wrote_leaves_with_the_thumbnail() -> None:
    exif = Image.Exif()
    exif[0x010F] = "SecretCamera"
    exif.get_ifd(0x8825)[1] = "N"
    for form in ("JPEG", "WEBP", "PNG"):
        extra = {"xmp": b"<x:xmpmeta>SecretPlace</x:xmpmeta>"} if form != "PNG" else {}
        source = picture(form=form, exif=exif, icc_profile=SRGB, **extra)
        assert b"SecretCamera" in source
        small = small_webp(source, SOURCE, 320, 240)
        assert not [chunk for chunk in (b"EXIF", b"XMP ", b"ICCP", b"Secret") if chunk in small], form


def test_the_colours_of_another_colour_space_come_out_as_they_were_seen() -> None:
    # In this one the first channel is the blue one.
    swapped = SRGB.replace(b"rXYZ", b"temp").replace(b"bXYZ", b"rXYZ").replace(b"temp", b"bXYZ")
    for form in ("JPEG", "PNG", "WEBP"):
        small = opened(small_webp(picture(64, 64, form, icc_profile=swapped), SOURCE, 16, 16))
        assert like(small.getpixel((8, 2)), BLUE), form
        assert like(small.getpixel((8, 13)), RED), form
        small = opened(small_webp(picture(64, 64, form, icc_profile=SRGB), SOURCE, 16, 16))
        assert like(small.getpixel((8, 2)), RED), form


@pytest.mark.parametrize("profile", [b"garbage", ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()])
def test_a_profile_that_does_not_fit_its_picture_is_left_out(profile: bytes) -> None:
    plain = small_webp(picture(64, 64), SOURCE, 16, 16)
    assert small_webp(picture(64, 64, icc_profile=profile), SOURCE, 16, 16) == plain


def test_the_same_picture_gives_the_same_bytes_in_threads_and_in_another_process() -> None:
    source = picture(form="JPEG")
    here = small_webp(source, SOURCE, 320, 240)
    with ThreadPoolExecutor(4) as pool:
        assert {here} == set(pool.map(lambda _: small_webp(source, SOURCE, 320, 240), range(16)))
    code = (
        "import sys; from shared.jobs._small_picture import small_webp;"
        "sys.stdout.buffer.write(small_webp(sys.stdin.buffer.read(), 'x', 320, 240))"
    )
    root = Path(__file__).parents[2]
    there = subprocess.run([sys.executable, "-c", code], input=source, capture_output=True, check=True, cwd=root)
    assert there.stdout == here


def test_no_two_requests_share_a_key() -> None:
    keys = {
        Thumbnail.model_validate(PAYLOAD | fields).target_key
        for fields in (
            {},
            {"width": 240, "height": 320},
            {"width": 32},
            {"sourceKey": "uploads/acme-eu/logo.png"},
            {"sourceKey": f"{SOURCE}/320x240.webp"},
            {"sourceKey": "uploads/acme-eu/2026/logo"},
            {"sourceKey": "uploads/acme-us/2026/logo.png", "tenantId": "acme-us"},
        )
    }
    assert len(keys) == 7
    assert all(key.startswith("thumbnails/acme-") for key in keys)


# What it will not decode


def a_png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG that claims this size, with these chunks in it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), *chunks, (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b""))
    )


def a_webp(width: int, height: int) -> bytes:
    """An animation whose canvas is this large and whose only frame is 8 × 8."""
    frame = picture(8, 8, "WEBP", lossless=True)[12:]
    sized = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    where = b"\0" * 6 + struct.pack("<I", 7)[:3] * 2 + struct.pack("<I", 100)[:3] + b"\0"
    chunks = [(b"VP8X", b"\x02\0\0\0" + sized), (b"ANIM", b"\0" * 6), (b"ANMF", where + frame)]
    body = b"WEBP" + b"".join(kind + struct.pack("<I", len(data)) + data for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def a_gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + picture(8, 8, "GIF")[10:]


def a_jpeg(width: int, height: int) -> bytes:
    data = bytearray(picture(8, 8, "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)


BOMBS = [
    *(make(7_000, 6_000) for make in (a_png, a_webp, a_gif, a_jpeg)),  # above our limit, below twice of it
    *(make(16_383, 16_383) for make in (a_png, a_webp, a_gif, a_jpeg)),
    a_png(2**31 - 1, 2**31 - 1),
    a_png(MAX_PIXELS + 1, 1),
]


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda b: f"{b[:4]!r}-{len(b)}")
@pytest.mark.parametrize("warned", ["error", "ignore"])
def test_a_bomb_is_refused_by_what_it_claims(bomb: bytes, warned: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(warned)  # in a function a warning is a line in the log, and no more
        assert refusal(bomb).code == "image-too-large"


@pytest.mark.parametrize("size", [(1, MAX_SIDE + 1), (MAX_SIDE + 1, 1), (1, 40_000_000), (600, MAX_SIDE + 1)])
def test_a_side_of_more_than_65535_is_refused(size: tuple[int, int]) -> None:
    """Each row costs a pointer besides its pixels."""
    failure = refusal(a_png(*size))
    assert (failure.code, "a side has up to 65535" in str(failure)) == ("image-too-large", True)


@pytest.mark.parametrize("size", [(1, MAX_SIDE), (MAX_SIDE, 1)])
def test_a_side_of_65535_is_taken(size: tuple[int, int]) -> None:
    assert max(opened(small_webp(picture(*size), SOURCE, 16, 16)).size) == 16


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of memory to set elsewhere")
def test_a_bomb_is_refused_where_there_is_no_memory_to_decode_it() -> None:
    code = f"""
import base64, resource, sys
from PIL import Image, WebPImagePlugin
from shared.errors import DeterministicFailure
from shared.jobs._small_picture import small_webp
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {2**29}, used + {2**29}))
for line in sys.stdin:
    try:
        small_webp(base64.b64decode(line), "x", 320, 240)
    except DeterministicFailure as failure:
        print(failure.code)
"""
    lines = b"\n".join(base64.b64encode(bomb) for bomb in BOMBS)
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", code], input=lines, capture_output=True, check=False, cwd=root)
    assert ran.stdout.split() == [b"image-too-large"] * len(BOMBS), ran.stderr


def test_the_largest_picture_that_is_taken_is_of_forty_megapixels() -> None:
    assert MAX_PIXELS == 40_000_000
    data = io.BytesIO()
    Image.new("1", (8_000, 5_000)).save(data, "PNG")
    assert opened(small_webp(data.getvalue(), SOURCE, 16, 16)).size == (16, 10)


def test_a_file_of_too_many_bytes_is_refused_unread() -> None:
    assert refusal(picture() + b"\0" * MAX_BYTES).code == "image-too-large"


def test_a_text_that_swells_inside_a_png_is_refused() -> None:
    swollen = b"note\0\0" + zlib.compress(b"\0" * 50_000_000)
    assert refusal(a_png(8, 8, (b"zTXt", swollen))).code == "image-invalid"


def progressive(scans: int) -> bytes:
    """A progressive JPEG that paints its last scan again and again."""
    data = picture(64, 64, "JPEG", progressive=True)
    end = data.rindex(b"\xff\xd9")
    last = data.rindex(b"\xff\xda")
    had = data.count(b"\xff\xda")
    return data[:end] + data[last:end] * (scans - had) + data[end:]


def test_a_jpeg_that_paints_over_itself_without_end_is_refused() -> None:
    failure = refusal(progressive(MAX_SCANS + 1))
    assert (failure.code, "101 scans" in str(failure)) == ("image-too-large", True)
    assert opened(small_webp(progressive(20), SOURCE, 16, 16)).size == (16, 16)


def test_what_a_phone_appends_behind_the_picture_is_not_counted() -> None:
    film = b"\xff\xda\0\x08" * 100_000
    assert opened(small_webp(progressive(20) + film, SOURCE, 16, 16)).size == (16, 16)


@pytest.mark.parametrize("junk", [b"\xff", b"\xff\x00", b"\xff\xd0", b"\xff\xe0\0\0"])
def test_counting_the_scans_of_junk_takes_no_longer_than_reading_it(junk: bytes) -> None:
    started = time.thread_time()
    refusal(b"\xff\xd8" + junk * (1_000_000 // len(junk)))
    assert time.thread_time() - started < 3


@pytest.mark.parametrize("form", ["BMP", "TIFF", "ICO", "PPM", "TGA", "PCX", "SGI", "JPEG2000", "EPS"])
def test_any_other_format_is_refused_by_name(form: str) -> None:
    failure = refusal(picture(64, 64, form))
    assert failure.code == "image-invalid"
    assert "not a JPEG, PNG, WEBP, GIF" in str(failure)


@pytest.mark.parametrize("data", [b"", b"\0", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"GIF89a", b"%PDF-1.7"])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    assert refusal(data).code == "image-invalid"


JPEGS: list[dict[str, Any]] = [
    {}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_blocks": 1}, {"restart_marker_rows": 1},
    {"quality": 100}, {"optimize": True},
]  # fmt: skip


def a_scene(mode: str = "RGB", **options: Any) -> bytes:
    """A JPEG with something in every corner."""
    noise = Image.effect_noise((203, 117), 60).convert("RGB")
    noise.paste(Image.linear_gradient("L").resize((203, 60)).convert("RGB"), (0, 20))
    data = io.BytesIO()
    noise.convert(mode).save(data, "JPEG", **options)
    return data.getvalue()


@pytest.mark.parametrize("options", JPEGS, ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_jpeg_that_lacks_only_its_end_marker_is_completed(options: dict[str, Any], mode: str) -> None:
    whole = a_scene(mode, **options)
    assert whole.endswith(b"\xff\xd9")
    small = small_webp(whole, SOURCE, 60, 60)
    for lacking in (whole[:-2], whole[:-1], whole[:-2] + bytes(500)):  # half of it; a block of a disk in its place
        assert small_webp(lacking, SOURCE, 60, 60) == small


@pytest.mark.parametrize("options", JPEGS, ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_jpeg_that_lacks_rows_is_refused(options: dict[str, Any], mode: str) -> None:
    whole = a_scene(mode, **options)
    begins = whole.index(b"\xff\xda") + 20
    for share in (0.1, 0.5, 0.9, 0.99):
        cut = begins + int((len(whole) - begins) * share)
        assert refusal(whole[:cut]).code == "image-invalid", share


def test_a_jpeg_cut_between_two_restarts_is_refused() -> None:
    """There no data is missing, as far as a decoder can see, only rows."""
    whole = a_scene(restart_marker_rows=1)
    for restart in range(0xD0, 0xD6):
        assert refusal(whole[: whole.index(b"\xff%c" % restart)]).code == "image-invalid"


@pytest.mark.parametrize("form", FORMATS)
def test_a_picture_cut_short_is_refused(form: str) -> None:
    source = picture(form=form)
    assert refusal(source[: len(source) // 2]).code == "image-invalid"


@settings(max_examples=150, deadline=None)
@given(form=st.sampled_from(FORMATS), edits=st.lists(st.tuples(st.integers(0), st.binary(min_size=1, max_size=4))))
def test_damaged_bytes_give_a_thumbnail_or_a_refusal_and_nothing_else(
    form: str, edits: list[tuple[int, bytes]]
) -> None:
    data = bytearray(picture(40, 40, form))
    for place, patch in edits:
        at = place % len(data)
        data[at : at + len(patch)] = patch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            size, code = opened(small_webp(bytes(data), SOURCE, 16, 16)).size, ""
        except DeterministicFailure as failure:
            size, code = (0, 0), failure.code
    assert max(size) <= 16
    assert code in ("", "image-invalid", "image-too-large")


# Whose pictures


def test_a_job_without_a_tenant_is_a_trusted_callers() -> None:
    run = HandledRun(tenant=None)
    run.files.write(SOURCE, picture(), "image/png")
    assert make_thumbnail(Thumbnail.model_validate(PAYLOAD), run).key == TARGET


def test_a_missing_picture_is_named() -> None:
    with pytest.raises(DeterministicFailure, match=SOURCE) as raised:
        make_thumbnail(Thumbnail.model_validate(PAYLOAD), HandledRun())
    assert raised.value.code == "file-missing"


# At the door


@pytest.mark.parametrize("key", ["uploads/acme-us/x.png", "uploads/acme-eu.png", "acme-eu/x.png", "uploads/acme-eux/x"])
def test_a_key_outside_the_tenants_uploads_is_refused_at_the_door(key: str) -> None:
    assert faults(sourceKey=key) == ["/payload"]


@pytest.mark.parametrize(
    "key",
    [
        "", "/", "uploads/acme-eu/", "uploads/acme-eu//x.png", "/uploads/acme-eu/x.png", "uploads/acme-eu/../b/x.png",
        "uploads/acme-eu/./x.png", "uploads/acme-eu/..", "uploads/acme-eu/..\\x.png", "uploads/acme-eu/x\0.png",
        "uploads/acme-eu/x\n.png", "uploads/acme-eu/" + "x" * 900, "uploads/acme-eu/" + "ż" * 450,
    ],
)  # fmt: skip
def test_a_key_that_walks_about_is_refused_at_the_door(key: str) -> None:
    assert faults(sourceKey=key) == ["/payload/sourceKey"]


@pytest.mark.parametrize("key", ["uploads/acme-eu/x", "uploads/acme-eu/a b/..x..png", "uploads/acme-eu/Żółw (1).JPG"])
def test_an_ordinary_key_is_taken(key: str) -> None:
    assert faults(sourceKey=key) == []


@pytest.mark.parametrize("side", ["width", "height"])
def test_a_box_is_of_16_to_2048_pixels(side: str) -> None:
    for wrong in (15, 2049, 0, -1, 320.5, "320", None):
        assert faults(**{side: wrong}) == [f"/payload/{side}"]
    for right in (16, 2048):
        assert faults(**{side: right}) == []


def test_it_declares_its_lane_its_version_its_deadline_and_that_it_has_a_result() -> None:
    assert (THUMBNAIL.queue, THUMBNAIL.version) == (QUEUES["thumbnails"], 1)
    assert THUMBNAIL.requires_result
    assert THUMBNAIL.deadline == timedelta(seconds=45)
    assert THUMBNAIL.policy.max_attempts == 5
