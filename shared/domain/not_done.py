"""What proves that a call outside did not take place, so that an at-most-once effect may be begun again: the provider
refused it, or was never reached. Silence after sending, a 5xx, and whatever is not named here prove nothing.

An exception tells how its last try ended, so it counts only where there was no earlier one: a client that repeats by
itself may be refused what its first, unanswered try has done.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Iterator

from shared.domain.failures import http_status
from shared.errors import JobFailure, NotDone

_SAYS_SO: tuple[type[BaseException], ...] = (NotDone, ConnectionRefusedError, socket.gaierror)

_NEVER_SENT = frozenset(
    {
        "botocore.EndpointConnectionError",
        "botocore.ConnectTimeoutError",
        "botocore.ProxyConnectionError",
        "botocore.ParamValidationError",
        "botocore.NoCredentialsError",
        "botocore.PartialCredentialsError",
        "botocore.CredentialRetrievalError",
        "botocore.NoRegionError",
        "urllib3.NewConnectionError",
        "urllib3.ConnectTimeoutError",
        "urllib3.ProxyError",
        "requests.ConnectTimeout",
        "httpx.ConnectError",
        "httpx.ConnectTimeout",
        "httpx.PoolTimeout",
        "ssl.SSLCertVerificationError",
    }
)
"""Top package and class, base classes included; by name, as in failures.py."""


def proves_not_done(error: BaseException) -> bool:
    """Whether the one call that ended with this exception certainly had no effect. Never raises."""
    try:
        told = list(_told_by(error))
        return any(_says_so(one) for one in told) and not any(_repeated(one) for one in told)
    except Exception:
        return False


def _told_by(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it names as its reason. Never `__context__`: what was being handled meanwhile may
    be another call's failure.
    """
    seen: list[BaseException] = []
    rest: list[object] = [error]
    while rest:
        one = rest.pop(0)
        if not isinstance(one, BaseException) or any(one is other for other in seen):
            continue
        seen.append(one)
        yield one
        if isinstance(one, JobFailure):  # raised by the handler, from what it met
            rest.append(one.__cause__)
        if _package(type(one)) in ("urllib", "urllib3", "requests"):
            rest += [getattr(one, "reason", None), *one.args[:1]]


def _says_so(error: BaseException) -> bool:
    if isinstance(error, _SAYS_SO):
        return True
    status = None if isinstance(error, JobFailure) else http_status(error)
    if status is not None:
        return status < 500
    return any(f"{_package(base)}.{base.__name__}" in _NEVER_SENT for base in type(error).__mro__)


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _repeated(error: BaseException) -> bool:
    """Whether it shows that this was not its client's first try. botocore counts in answers alone, urllib3 nowhere: of
    a connection that failed only the frames of those who tried know.
    """
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata") if isinstance(response, dict) else None
    if isinstance(metadata, dict) and metadata.get("RetryAttempts"):
        return True
    if getattr(getattr(getattr(response, "raw", None), "retries", None), "history", None):
        return True
    frames = {id(frame): frame for frame, _ in traceback.walk_tb(error.__traceback__)}.values()
    places = [(str(frame.f_globals.get("__name__")), frame) for frame in frames]
    tries = [frame.f_locals.get("attempts") for place, frame in places if place.endswith("botocore.endpoint")]
    calls = [frame.f_code.co_name for place, frame in places if place == "urllib3.connectionpool"]
    return any(isinstance(n, int) and n > 1 for n in tries) or calls.count("urlopen") > 1
