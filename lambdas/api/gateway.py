"""Requests and answers, free of API Gateway's event format (HTTP API, payload format 2.0)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_TRACE = re.compile(r"(?:^|;)Root=(1-[0-9a-f]{8}-[0-9a-f]{24})(?:;|$)")


_SESSION = re.compile(r"(:assumed-role/[^/]+)/.*")


class BodyNotReadable(ValueError):
    """The event says that its body is base64, and it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call. Header names are lower-case; `claims` are those a JWT authorizer vouches for, and no others.

    principal  who the authorizer says is calling: an IAM role or user, or the subject of a token ("" where the token
               names none); None where nobody was asked
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: str = ""
    body_is_base64: bool = False
    claims: Mapping[str, Any] = field(default_factory=dict)
    principal: str | None = None
    request_id: str = ""
    path_parameters: Mapping[str, str] = field(default_factory=dict)

    def body_bytes(self) -> bytes:
        """The raw body. Raises BodyNotReadable."""
        if not self.body_is_base64:
            return self.body.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(self.body, validate=True)
        except (binascii.Error, ValueError) as e:
            raise BodyNotReadable("the event's body is marked base64 and is not") from e

    @property
    def trace_id(self) -> str | None:
        """The X-Ray trace this call belongs to, None where the gateway names none."""
        found = _TRACE.search(self.headers.get("x-amzn-trace-id", ""))
        return found[1] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer. `facts` are for the log line and never leave the function."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_event(self) -> dict[str, Any]:
        """What API Gateway expects from the function."""
        headers = {"x-content-type-options": "nosniff", **self.headers}
        return {"statusCode": self.status, "headers": headers, "body": self.body.decode(), "isBase64Encoded": False}


def from_event(event: Mapping[str, Any]) -> Request:
    """The request of an event. Raises KeyError for an event that is not of payload format 2.0."""
    context = event["requestContext"]
    # A stage that is not $default stands in front of the path of its events, but in none of our routes.
    stage = context.get("stage", "$default")
    return Request(
        method=context["http"]["method"].upper(),
        path=event["rawPath"].removeprefix(f"/{stage}") if stage != "$default" else event["rawPath"],
        headers={name.lower(): value for name, value in (event.get("headers") or {}).items()},
        body=event.get("body") or "",
        body_is_base64=bool(event.get("isBase64Encoded")),
        claims=_claims(context),
        principal=_principal(context),
        request_id=context.get("requestId", ""),
    )


def _claims(context: Mapping[str, Any]) -> Mapping[str, Any]:
    return ((context.get("authorizer") or {}).get("jwt") or {}).get("claims") or {}


def _principal(context: Mapping[str, Any]) -> str | None:
    authorizer = context.get("authorizer") or {}
    if "jwt" in authorizer:
        return str(_claims(context).get("sub", ""))
    arn = (authorizer.get("iam") or {}).get("userArn")
    # An assumed role's session is named by whoever assumes it, so it tells no two callers apart that matter.
    return _SESSION.sub(r"\1", str(arn)) if arn else None


def encode_json(value: object) -> bytes:
    """JSON in ASCII, so that no proxy and no console on the way can garble it."""
    return json.dumps(value, separators=(",", ":")).encode()
