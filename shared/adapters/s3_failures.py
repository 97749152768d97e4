"""What S3's refusals and silences mean for a job."""

from __future__ import annotations

from datetime import UTC, datetime

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ParamValidationError,
)
from botocore.exceptions import ConnectionError as ConnectionFailed

from shared.domain.retry_after import retry_after_of
from shared.errors import DeterministicFailure, EnvironmentalFailure, JobFailure, TransientFailure

DENIED = "s3-denied"

_THROTTLED = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"})
_PASSING = frozenset({"RequestTimeout", "OperationAborted", "ExpiredToken", "RequestTimeTooSkewed", "NoSuchUpload"})
"""Refused with a 4xx, and still only a matter of time. NoSuchUpload also answers the SDK's second try of a completion
whose first answer was lost: the next run writes the file again.
"""

_CUT_OFF = (ConnectionFailed, HTTPClientError, IncompleteReadError, FlexibleChecksumError)
"""Refused, reset, timed out, or ended before the last byte."""

_MISDEPLOYED = frozenset({"NoSuchBucket", "PermanentRedirect", "AuthorizationHeaderMalformed"})
"""The bucket is not there, or in another region than the client: an operator's business, not this job's."""


def failure(doing: str, key: str, error: BotoCoreError | ClientError) -> JobFailure:
    """`doing` ("reading") `key` ended in `error`."""
    if isinstance(error, ClientError):
        return _refusal(f"{doing} {key}", key, error)
    if isinstance(error, ParamValidationError):
        return DeterministicFailure(f"{doing} {key}: {type(error).__name__}", code="s3-refused")
    if isinstance(error, _CUT_OFF):
        return TransientFailure(f"{doing} {key}: S3 did not answer ({type(error).__name__})", code="s3-unreachable")
    # No credentials, no region, …
    return EnvironmentalFailure(f"{doing} {key}: {type(error).__name__}", code="s3-unusable")


def _refusal(doing: str, key: str, error: ClientError) -> JobFailure:
    code = str(error.response.get("Error", {}).get("Code", ""))
    answer = error.response.get("ResponseMetadata", {})
    status = int(answer.get("HTTPStatusCode", 0))
    retry_after = retry_after_of(answer.get("HTTPHeaders"), datetime.now(UTC))
    said = f"{doing}: S3 answered {status} {code}"
    if code == "NoSuchKey":
        return DeterministicFailure(f"{key} is missing", code="file-missing")
    if code == "PreconditionFailed":
        return TransientFailure(f"{key} was changed while it was read", code="file-changed")
    if code in _THROTTLED or status in (429, 503):
        return TransientFailure(said, code="s3-throttled", retry_after=retry_after)
    if code in _PASSING or status >= 500:
        return TransientFailure(said, code="s3-unreachable", retry_after=retry_after)
    if code in _MISDEPLOYED:
        return EnvironmentalFailure(f"{said} for the bucket of job files", code="s3-bucket-missing")
    if status == 403:
        # Environmental, not dead at once: a lost grant or key breaks every job alike and is mended outside them.
        return EnvironmentalFailure(f"{said}; no permission, or missing and no s3:ListBucket", code=DENIED)
    return DeterministicFailure(said, code="s3-refused")
