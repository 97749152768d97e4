"""Request bodies. POST /exports takes the payload of its job type, so it needs no model of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lambdas.api.fields import Instant, OrderingKey, TagWord, Tenant
from shared.operations.submit import MAX_AGE, MAX_TAGS, MIN_AGE

_A_YEAR_SECONDS = 366 * 24 * 3600
"""Only keeps the arithmetic of times within bounds; how far ahead a job may be is the operation's rule."""


class JobSubmission(BaseModel):
    """One durable request to do some work."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)

    type: str = Field(description="One of the job types.")
    payload: dict[str, Any] = Field(description="The small input of the job, as its type declares it; 256 KB at most.")
    tenant_id: Tenant | None = Field(None, description="Whose job it is. Under JWT the token says so.")
    run_at: Instant | None = Field(None, description="Not before this time; not together with delaySeconds.")
    delay_seconds: int | None = Field(None, ge=0, le=_A_YEAR_SECONDS, description="Not before so long from now.")
    ordering_key: OrderingKey | None = Field(None, description="Jobs of one key run one at a time, in order (FIFO).")
    max_age_seconds: int | None = Field(
        None,
        ge=MIN_AGE // timedelta(seconds=1),
        le=MAX_AGE // timedelta(seconds=1),
        description="How long after its time the job may still start; without it, what its type says.",
    )
    tags: dict[TagWord, TagWord] | None = Field(
        None, max_length=MAX_TAGS, description="Names and values to find the job by."
    )
