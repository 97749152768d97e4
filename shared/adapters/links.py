"""Short-lived links to job files in S3."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

LONGEST_LINK = timedelta(days=7)
"""SigV4's own limit; a link also dies with the session of the role that signed it."""


class S3Links:
    """shared.ports.Links by presigned GetObject. The client must sign with SigV4, which boto3 does not by default in
    some regions: give it Config(signature_version="s3v4", s3={"addressing_style": "virtual"}).
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def link(self, key: str, lifetime: timedelta, version: str | None = None) -> str:
        """See Links. The file is offered for download, named after its key. Raises ValueError for a lifetime outside
        one second to seven days, and for a client that signs in another way.
        """
        # Not asked of it before: a client that is made on first use would be made by the asking.
        if self._client.meta.config.signature_version != "s3v4":
            raise ValueError("S3Links needs an S3 client made with Config(signature_version='s3v4')")
        if not timedelta(seconds=1) <= lifetime <= LONGEST_LINK:
            raise ValueError(f"a link may live for 1 second to 7 days, not {lifetime}")
        asked = {"Bucket": self._bucket, "Key": key} | ({} if version is None else {"VersionId": version})
        named = {"ResponseContentDisposition": f'attachment; filename="{_download_name(key)}"'}
        return str(
            self._client.generate_presigned_url(
                "get_object", Params=asked | named, ExpiresIn=int(lifetime.total_seconds())
            )
        )


def _download_name(key: str) -> str:
    """The key without its first part, so that two downloads can be told apart: acme-eu-2026-05-invoice-export.pdf."""
    parts = key.split("/")
    return re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts[1:] or parts))
