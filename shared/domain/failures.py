"""Which class an exception belongs to. One table for the exceptions of others; ours say it themselves.

Nothing is imported for it: libraries are recognised by what their exceptions carry, so a worker that never speaks HTTP
loads no HTTP client to classify its errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shared.domain.describe import aws_error, describe, part, safe_text
from shared.domain.job import MESSAGE_CUT
from shared.domain.resolving import is_unknown_name
from shared.domain.retry import Failure, FailureClass
from shared.domain.retry_after import retry_after_of
from shared.errors import (
    LONGEST_RETRY_AFTER,
    DeterministicFailure,
    EnvironmentalFailure,
    JobFailure,
    TransientFailure,
    UnknownOutcome,
)

MAX_CODE = 64

_TRANSIENT, _DETERMINISTIC = FailureClass.TRANSIENT, FailureClass.DETERMINISTIC
_ENVIRONMENTAL = FailureClass.ENVIRONMENTAL

AWS_CODES: Mapping[str, FailureClass] = {
    "AccessDenied": _ENVIRONMENTAL,  # a right that is missing comes with the next deployment, not with a retry
    "AccessDeniedException": _ENVIRONMENTAL,
    "UnauthorizedOperation": _ENVIRONMENTAL,
    "ExpiredToken": _TRANSIENT,
    "ExpiredTokenException": _TRANSIENT,
    "LimitExceededException": _ENVIRONMENTAL,
    "ServiceQuotaExceededException": _ENVIRONMENTAL,
    "AccountSuspendedException": _ENVIRONMENTAL,
    "SendingPausedException": _ENVIRONMENTAL,
    "MailFromDomainNotVerifiedException": _ENVIRONMENTAL,
    "TooManyRequestsException": _TRANSIENT,
    "SlowDown": _TRANSIENT,
    "Throttling": _TRANSIENT,
    "ThrottlingException": _TRANSIENT,
    "RequestLimitExceeded": _TRANSIENT,
    "ProvisionedThroughputExceededException": _TRANSIENT,
    "TransactionConflictException": _TRANSIENT,
    "RequestTimeout": _TRANSIENT,
    "RequestTimeoutException": _TRANSIENT,
    "PriorRequestNotComplete": _TRANSIENT,
}
"""botocore's ClientError codes; what is not here goes by its HTTP status."""

_NOT_FOUND = 404
_STATUSES: Mapping[int, FailureClass] = {
    401: _ENVIRONMENTAL,
    402: _ENVIRONMENTAL,
    403: _ENVIRONMENTAL,
    _NOT_FOUND: _TRANSIENT,  # most often a server in the middle of a deployment; attempts are bounded
    408: _TRANSIENT,
    409: _TRANSIENT,
    423: _TRANSIENT,
    425: _TRANSIENT,
    429: _TRANSIENT,
}

_NAMES: Mapping[str, FailureClass] = {
    "pydantic_core.ValidationError": _DETERMINISTIC,
    "botocore.ParamValidationError": _DETERMINISTIC,
    "botocore.NoCredentialsError": _ENVIRONMENTAL,
    "botocore.BotoCoreError": _TRANSIENT,
    "urllib3.HTTPError": _TRANSIENT,
    "requests.RequestException": _TRANSIENT,
    "httpx.TransportError": _TRANSIENT,
}
"""Top package and class of others' exceptions, most specific first; base classes count."""

_TYPES: tuple[tuple[type[BaseException], FailureClass], ...] = (
    (UnknownOutcome, FailureClass.UNKNOWN_OUTCOME),
    (TransientFailure, _TRANSIENT),
    (EnvironmentalFailure, _ENVIRONMENTAL),
    (DeterministicFailure, _DETERMINISTIC),
    (JobFailure, _TRANSIENT),
    (OSError, _TRANSIENT),  # sockets, timeouts, resets, files
    (UnicodeError, _DETERMINISTIC),
    # A bug in the handler: the same input runs into it again.
    (TypeError, _DETERMINISTIC),
    (AttributeError, _DETERMINISTIC),
    (NameError, _DETERMINISTIC),
    (ImportError, _DETERMINISTIC),
    (ArithmeticError, _DETERMINISTIC),
    (LookupError, _DETERMINISTIC),
    (ValueError, _DETERMINISTIC),
    (NotImplementedError, _DETERMINISTIC),
    (AssertionError, _DETERMINISTIC),
    (RecursionError, _DETERMINISTIC),
)


def classify(error: BaseException, now: datetime) -> Failure:
    """The failure an exception stands for. What no table knows is transient: attempts are bounded.

    Never raises, whatever the exception: a failure that cannot be judged would look like a worker that vanished.
    """
    try:
        code, told = safe_text(_code(error))[:MAX_CODE], isinstance(error, JobFailure)
        return Failure(_found(error), code, describe(error), _retry_after(error, now), told)
    except Exception:
        return Failure(_TRANSIENT, type(error).__name__[:MAX_CODE], type(error).__name__[:MESSAGE_CUT])


def class_of_status(status: int) -> FailureClass:
    """What an HTTP answer other than 2xx stands for, whoever reads it (docs/decisions/webhooks.md says why)."""
    return _STATUSES.get(status, _DETERMINISTIC if 300 <= status <= 499 else _TRANSIENT)


def _found(error: BaseException) -> FailureClass:
    if not isinstance(error, JobFailure):
        if (code := _aws_code(error)) in AWS_CODES:
            return AWS_CODES[code]
        if (status := http_status(error)) is not None:
            # AWS is never in the middle of a deployment: what it does not find is not there.
            return _DETERMINISTIC if status == _NOT_FOUND and _aws_code(error) else class_of_status(status)
        names = [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(error).__mro__]
        if named := next((found for name, found in _NAMES.items() if name in names), None):
            return named
    return next((found for kind, found in _TYPES if isinstance(error, kind)), _TRANSIENT)


def _code(error: BaseException) -> str:
    if isinstance(error, JobFailure):
        return str(error.code) or type(error).__name__
    status = http_status(error)
    return _aws_code(error) or (f"http-{status}" if status is not None else _name_code(error) or type(error).__name__)


def _name_code(error: BaseException) -> str:
    """A name that does not exist is its caller's to mend, a resolver in trouble is not: never one code for both."""
    unknown = is_unknown_name(error) if _found(error) is _TRANSIENT else None
    return "" if unknown is None else "host-unknown" if unknown else "resolver-failed"


def _aws_code(error: BaseException) -> str:
    return str(aws_error(error).get("Code", ""))


def http_status(error: BaseException) -> int | None:
    """The HTTP status an exception carries: requests and httpx on `.response`, urllib on `.code`, botocore in its
    metadata, many SDKs on `.status` or `.status_code`.
    """
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        candidates: list[Any] = [part(response, "ResponseMetadata").get("HTTPStatusCode")]
    else:
        candidates = [getattr(response, "status_code", None), getattr(response, "status", None)]
        candidates += [getattr(error, name, None) for name in ("status_code", "status", "code")]
    return next((c for c in candidates if type(c) is int and 400 <= c <= 599), None)


def _retry_after(error: BaseException, now: datetime) -> timedelta | None:
    """From ours or from any response's headers; at least 0."""
    if isinstance(error, JobFailure):
        asked = getattr(error, "retry_after", None)  # a subclass may have left our constructor out
        return min(asked, LONGEST_RETRY_AFTER) if isinstance(asked, timedelta) else None
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return retry_after_of(part(part(response, "ResponseMetadata"), "HTTPHeaders"), now)
    return retry_after_of(getattr(response, "headers", None) or getattr(error, "headers", None), now)
