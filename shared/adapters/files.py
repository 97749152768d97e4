"""Job files: in S3, and in memory for tests and the twin."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from datetime import timedelta
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ParamValidationError,
)
from botocore.exceptions import ConnectionError as ConnectionFailed

from shared.domain.run import StoredFile
from shared.errors import DeterministicFailure, EnvironmentalFailure, JobFailure, TransientFailure

MAX_READ_BYTES = 256 * 1024 * 1024
"""A worker holds a file whole, four jobs at once in 2 GB: a larger one would end the worker, and the jobs beside it."""

LONGEST_LINK = timedelta(days=7)
"""SigV4's own limit; a link also dies with the session of the role that signed it."""

_THROTTLED = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"})
_PASSING = frozenset({"RequestTimeout", "OperationAborted", "ExpiredToken", "RequestTimeTooSkewed"})
"""Refused with a 4xx, and still only a matter of time."""

_CUT_OFF = (ConnectionFailed, HTTPClientError, IncompleteReadError, FlexibleChecksumError)
"""Refused, reset, timed out, or ended before the last byte."""

_MISDEPLOYED = frozenset({"NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed"})
"""The bucket is not there, or in another region than the client: an operator's business, not this job's."""


class S3Files:
    """shared.domain.run.Files in a bucket. `client` is a boto3 S3 client, safe to share between threads."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def read(self, key: str) -> bytes:
        """See Files. Also raises DeterministicFailure (code "file-too-large") above MAX_READ_BYTES."""
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            # Not `with answer["Body"]`: that enters the bare HTTP stream, whose errors are urllib3's and whose early
            # end goes unnoticed.
            with closing(answer["Body"]) as body:
                if answer["ContentLength"] > MAX_READ_BYTES:
                    raise DeterministicFailure(
                        f"{key}: {answer['ContentLength']} bytes, over the {MAX_READ_BYTES} a job may read whole",
                        code="file-too-large",
                    )
                return bytes(body.read())
        except (BotoCoreError, ClientError) as error:
            raise self._failure("reading", key, error) from error

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """See Files. One PutObject: S3 shows the old object or the new one, never a part."""
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data, ContentType=content_type)
        except (BotoCoreError, ClientError) as error:
            raise self._failure("writing", key, error) from error
        return StoredFile(key, len(data), content_type)

    def _failure(self, doing: str, key: str, error: BotoCoreError | ClientError) -> JobFailure:
        if isinstance(error, ClientError):
            return self._refusal(f"{doing} {key}", key, error)
        if isinstance(error, ParamValidationError):
            return DeterministicFailure(f"{doing} {key}: {error}", code="s3-refused")
        if isinstance(error, _CUT_OFF):
            return TransientFailure(f"{doing} {key}: S3 did not answer ({error})", code="s3-unreachable")
        return EnvironmentalFailure(f"{doing} {key}: {error}", code="s3-unusable")  # no credentials, no region, …

    def _refusal(self, doing: str, key: str, error: ClientError) -> JobFailure:
        code = str(error.response.get("Error", {}).get("Code", ""))
        answer = error.response.get("ResponseMetadata", {})
        status = int(answer.get("HTTPStatusCode", 0))
        retry_after = _seconds(answer.get("HTTPHeaders", {}).get("retry-after"))
        said = f"{doing}: S3 answered {status} {code}"
        if code == "NoSuchKey":
            return DeterministicFailure(f"{key} is missing", code="file-missing")
        if code in _THROTTLED or status in (429, 503):
            return TransientFailure(said, code="s3-throttled", retry_after=retry_after)
        if code in _PASSING or status >= 500:
            return TransientFailure(said, code="s3-unreachable", retry_after=retry_after)
        if code in _MISDEPLOYED:
            return EnvironmentalFailure(f"{said} for the bucket of job files", code="s3-bucket-missing")
        if status == 403:
            # Environmental, not dead at once: a lost grant or key breaks every job alike and is mended outside them.
            # The price: to a role without s3:ListBucket, S3 says 403 for a missing key too.
            return EnvironmentalFailure(f"{said}; no permission, or missing and no s3:ListBucket", code="s3-denied")
        return DeterministicFailure(said, code="s3-refused")


def _seconds(retry_after: str | None) -> timedelta | None:
    """Retry-After in seconds; as an HTTP date, which S3 does not send, it is left to the backoff."""
    return timedelta(seconds=int(retry_after)) if retry_after and re.fullmatch("[0-9]{1,6}", retry_after) else None


class S3Links:
    """shared.ports.Links by presigned GetObject. Raises ValueError for a client that would sign in another way than
    SigV4, as boto3 does by default in some regions: give it
    Config(signature_version="s3v4", s3={"addressing_style": "virtual"}).
    """

    def __init__(self, client: Any, bucket: str) -> None:
        if client.meta.config.signature_version != "s3v4":
            raise ValueError("S3Links needs an S3 client made with Config(signature_version='s3v4')")
        self._client, self._bucket = client, bucket

    def link(self, key: str, lifetime: timedelta) -> str:
        """See Links. The file is offered for download, named after its key. Raises ValueError for a lifetime outside
        one second to seven days.
        """
        if not timedelta(seconds=1) <= lifetime <= LONGEST_LINK:
            raise ValueError(f"a link may live for 1 second to 7 days, not {lifetime}")
        named = {"ResponseContentDisposition": f'attachment; filename="{_download_name(key)}"'}
        return str(
            self._client.generate_presigned_url(
                "get_object",
                Params={"Bucket": self._bucket, "Key": key, **named},
                ExpiresIn=int(lifetime.total_seconds()),
            )
        )


def _download_name(key: str) -> str:
    """The key without its first part, so that two downloads can be told apart: acme-eu-2026-05-invoice-export.pdf."""
    parts = key.split("/")
    return re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts[1:] or parts))


class MemoryFiles:
    """shared.domain.run.Files in a dictionary; safe to share between threads."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read(self, key: str) -> bytes:
        """See Files."""
        with self._lock:
            if key not in self._data:
                raise DeterministicFailure(f"{key} is missing in memory", code="file-missing")
            return self._data[key]

    def write(self, key: str, data: bytes, content_type: str) -> StoredFile:
        """See Files."""
        with self._lock:
            self._data[key] = bytes(data)
        return StoredFile(key, len(data), content_type)
