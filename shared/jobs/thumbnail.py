"""A small picture of an uploaded one, from the bucket to the bucket."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from shared.domain.job import TENANT
from shared.domain.retry import RetryPolicy
from shared.domain.run import Run, StoredFile
from shared.domain.text import BREAKING_CHARACTERS, flaw
from shared.jobs import Payload, TenantId, job_type

MAX_KEY_BYTES = 900  # of the 1024 that S3 takes; the rest is for the name of the thumbnail


_KEY_PATTERN = rf"^uploads/{TENANT.pattern}(/(?!\.{{1,2}}(/|$))[^/\\{BREAKING_CHARACTERS}]+)+$"


def _plain_key(key: str) -> str:
    """S3 takes "../" as it stands, but proxies, browsers and mounted buckets do not."""
    if any(part in ("", ".", "..") for part in key.split("/")) or "\\" in key:
        raise ValueError("parts are joined by single slashes, none of them '.' or '..', without backslashes")
    if found := flaw(key):
        raise ValueError(f"cannot hold {found}")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"is longer than {MAX_KEY_BYTES} bytes")
    return key


class Thumbnail(Payload):
    """source_key is a JPEG, PNG, WebP or GIF under uploads/<tenant>/, of at most 20 MB, 40 megapixels and 65,535 pixels
    a side; width and height, in pixels, are a box it is fitted into.
    """

    tenant_id: TenantId
    source_key: Annotated[str, AfterValidator(_plain_key)] = Field(
        examples=["uploads/acme-eu/logo.png"],
        description=f"Under uploads/<tenantId>/, of that very tenant; at most {MAX_KEY_BYTES} bytes in UTF-8.",
        json_schema_extra={"pattern": _KEY_PATTERN, "maxLength": MAX_KEY_BYTES},
    )
    width: int = Field(ge=16, le=2048, examples=[320])
    height: int = Field(ge=16, le=2048, examples=[240])

    @model_validator(mode="after")
    def _is_the_tenants_own(self) -> Self:
        if not self.source_key.startswith(f"uploads/{self.tenant_id}/"):
            raise ValueError(f"sourceKey must be under uploads/{self.tenant_id}/")
        return self

    @property
    def target_key(self) -> str:
        """No two requests share one, and all sizes of a picture lie together."""
        path = self.source_key.removeprefix("uploads/")
        return f"thumbnails/{path}/{self.width}x{self.height}.webp"


@job_type(
    "thumbnail",
    queue="thumbnails",
    version=1,
    deadline=timedelta(seconds=45),
    policy=RetryPolicy.exponential(timedelta(seconds=5), attempts=5, factor=4.0),  # only S3 can fail it in passing
    requires_result=True,
    open_to_tenants=True,  # reads and writes nothing but the tenant's own, within limits of size and time
)
def make_thumbnail(payload: Thumbnail, run: Run) -> StoredFile:
    """Writes thumbnails/<tenant>/<rest of the source's key>/<width>x<height>.webp: a repeat overwrites it with the
    same bytes.
    """
    from shared.jobs._small_picture import small_webp

    source = run.files.read(payload.source_key)
    small = small_webp(source, payload.source_key, payload.width, payload.height)
    return run.files.write(payload.target_key, small, "image/webp")
