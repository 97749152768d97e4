"""Kinds of fields that several models share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from shared.domain.job import TENANT
from shared.domain.text import NAME_PATTERN, flaw
from shared.operations.submit import (
    MAX_ORDERING_KEY_CHARACTERS,
    MAX_TAG_CHARACTERS,
    ORDERING_KEY_RULE,
    TENANT_RULE,
    is_ordering_key,
)

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def _instant(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    # fromisoformat alone also takes week dates, bare dates and local times, which name no instant.
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise PydanticCustomError("instant", "must be an RFC 3339 time with its offset, such as 2026-06-01T09:30:00Z")


def _milliseconds(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _tenant(value: str) -> str:
    if TENANT.fullmatch(value):
        return value
    raise PydanticCustomError("tenant", "must be {rule}", {"rule": TENANT_RULE})


def _ordering_key(value: str) -> str:
    if is_ordering_key(value):
        return value
    raise PydanticCustomError("ordering_key", "must be {rule}", {"rule": ORDERING_KEY_RULE})


def _name(value: str) -> str:
    if found := flaw(value):
        raise PydanticCustomError("name", "cannot hold {found}", {"found": found})
    return value


Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    PlainSerializer(_milliseconds),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Tenant = Annotated[str, AfterValidator(_tenant), WithJsonSchema({"type": "string", "pattern": f"^{TENANT.pattern}$"})]
OrderingKey = Annotated[
    str,
    AfterValidator(_ordering_key),
    WithJsonSchema({"type": "string", "pattern": f"^[!-~]{{1,{MAX_ORDERING_KEY_CHARACTERS}}}$"}),
]
TagWord = Annotated[
    str,
    Field(min_length=1, max_length=MAX_TAG_CHARACTERS, json_schema_extra={"pattern": NAME_PATTERN}),
    AfterValidator(_name),
]
