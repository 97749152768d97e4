"""Kinds of fields that several models share."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from shared.domain.job import TENANT
from shared.domain.text import NAME_PATTERN, flaw
from shared.operations.submit import (
    MAX_ORDERING_KEY_CHARACTERS,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    ORDERING_KEY_RULE,
    TENANT_RULE,
    is_ordering_key,
)

_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:)([0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})", re.IGNORECASE
)


def _instant(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    # fromisoformat alone also takes week dates, bare dates and local times, which name no instant.
    if isinstance(value, str) and (found := _RFC_3339.fullmatch(value)):
        to_minute, second, fraction, offset = found.groups()
        leap = timedelta(seconds=second == "60")  # RFC 3339 has leap seconds, datetime has not
        text = f"{to_minute}{'59' if leap else second}{(fraction or '')[:7]}{offset}"
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(text.upper()).astimezone(UTC) + leap
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
TagWord = Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARACTERS), AfterValidator(_name)]
_TAG_WORD = {"type": "string", "minLength": 1, "maxLength": MAX_TAG_CHARACTERS, "pattern": NAME_PATTERN}
Tags = Annotated[
    dict[TagWord, TagWord],
    Field(max_length=MAX_TAGS),
    # Said whole: of a model with patterns pydantic makes patternProperties, which let other names through.
    WithJsonSchema(
        {"type": "object", "maxProperties": MAX_TAGS, "propertyNames": _TAG_WORD, "additionalProperties": _TAG_WORD}
    ),
]
