"""Refusals as RFC 9457 problem documents, and which error of Holdfast becomes which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lambdas.api.answers import FaultView, Problem
from lambdas.api.gateway import Response, encode_json
from lambdas.api.limits import MAX_FAULTS, MAX_SHOWN, STORE_RETRY_AFTER
from lambdas.api.pointer import shown
from shared.errors import (
    Fault,
    InvalidRequest,
    KeyReused,
    NotAllowed,
    PayloadTooLarge,
    QuotaExceeded,
    RequestRefused,
    UnknownJobType,
)

PROBLEM_MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem: its name (the end of `type`), status and title. The title never varies, the detail does."""

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """The problem's `type`. A URN: a clone has no address of its own to document its problems under."""
        return f"urn:holdfast:problem:{self.name}"


MALFORMED = Kind("malformed-body", 400, "The body cannot be read")
BAD_KEY = Kind("invalid-idempotency-key", 400, "The Idempotency-Key cannot be used")
FORBIDDEN = Kind("forbidden", 403, "Not allowed")
NO_ROUTE = Kind("no-such-resource", 404, "There is no such resource")
NO_JOB = Kind("job-not-found", 404, "There is no such job")
BAD_METHOD = Kind("method-not-allowed", 405, "The resource does not take this method")
NO_RESULT = Kind("no-result", 409, "The job has no result to show")
BODY_TOO_LARGE = Kind("body-too-large", 413, "The body is too large")
PAYLOAD_TOO_LARGE = Kind("payload-too-large", 413, "The payload is too large")
BAD_MEDIA_TYPE = Kind("unsupported-media-type", 415, "The body is not sent as JSON")
INVALID = Kind("invalid-request", 422, "The request has invalid fields")
UNKNOWN_TYPE = Kind("unknown-job-type", 422, "There is no such job type")
KEY_REUSED = Kind("idempotency-key-reused", 422, "The Idempotency-Key belongs to another request")
TOO_MANY = Kind("quota-exceeded", 429, "That is more than the quota allows")
INTERNAL = Kind("internal-error", 500, "The request could not be carried out")
UNAVAILABLE = Kind("store-unavailable", 503, "The job store does not answer")

KINDS: tuple[Kind, ...] = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind))

_KIND_OF: Mapping[type[RequestRefused], Kind] = {
    UnknownJobType: UNKNOWN_TYPE,
    NotAllowed: FORBIDDEN,
    InvalidRequest: INVALID,
    PayloadTooLarge: PAYLOAD_TOO_LARGE,
    KeyReused: KEY_REUSED,
    QuotaExceeded: TOO_MANY,
}


class Refused(Exception):
    """The door refuses: raised from wherever it is noticed, answered in one place."""

    def __init__(
        self, kind: Kind, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.faults, self.headers = kind, detail, tuple(faults), headers or {}

    def response(self) -> Response:
        """The problem document."""
        # A payload may be wrong in thousands of places, or have a name of its full size.
        named = self.faults[:MAX_FAULTS]
        errors = [FaultView(pointer=shown(f.pointer, MAX_SHOWN), detail=shown(f.detail, MAX_SHOWN)) for f in named]
        document = Problem(
            type=self.kind.uri,
            title=self.kind.title,
            status=self.kind.status,
            detail=self.detail,
            errors=errors or None,
        )
        headers = {"content-type": PROBLEM_MEDIA_TYPE, "cache-control": "no-store", **self.headers}
        body = encode_json(document.model_dump(mode="json", by_alias=True, exclude_none=True))
        return Response(status=self.kind.status, headers=headers, body=body, facts={"problem": self.kind.name})


def of_refusal(error: RequestRefused) -> Refused:
    """What an operation refused, for the caller."""
    headers = {"retry-after": whole_seconds(error.retry_after)} if isinstance(error, QuotaExceeded) else {}
    return Refused(_KIND_OF.get(type(error), INVALID), error.detail, error.faults, headers)


def unavailable(method: str) -> Refused:
    """The store did not answer. For a POST the honest word is *known*: an answer may have been lost on its way."""
    stored = (
        "Nothing is known to be stored; send the request again with the same Idempotency-Key, "
        "so that it makes one job even if this one was."
    )
    detail = stored if method == "POST" else "The job could not be read just now; ask again."
    return Refused(UNAVAILABLE, detail, headers={"retry-after": whole_seconds(STORE_RETRY_AFTER)})


def internal(method: str, request_id: str) -> Refused:
    """A surprise. The log has its stack under this request id, the caller gets none of it."""
    safe = " It is safe to send it again with the same Idempotency-Key." if method == "POST" else ""
    return Refused(INTERNAL, f"Something failed that should not; the log knows it as request {request_id!r}.{safe}")


def whole_seconds(duration: timedelta) -> str:
    """For Retry-After: rounded up, never 0."""
    return str(max(1, -(-duration // timedelta(seconds=1))))
