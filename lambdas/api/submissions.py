"""Request bodies. POST /exports takes the payload of its job type, so it needs no model of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from lambdas.api.fields import Instant, OrderingKey, Tags, Tenant
from shared.operations.submit import LONGEST_AHEAD, MAX_AGE, MIN_AGE
from shared.quotas import LARGE_PAYLOAD_HORIZON

_SECOND = timedelta(seconds=1)
_NOT_BOTH: JsonDict = {
    "required": ["runAt", "delaySeconds"],
    "properties": {"runAt": {"type": "string"}, "delaySeconds": {"type": "integer"}},
}
_AHEAD = f"at most {LONGEST_AHEAD.days} days ahead ({LARGE_PAYLOAD_HORIZON.days} with a payload of 400 bytes or more)"


class JobSubmission(BaseModel):
    """One durable request to do some work."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"not": _NOT_BOTH},
    )

    type: str = Field(description="One of the job types.")
    payload: dict[str, Any] = Field(description="The small input of the job, as its type declares it; 256 KB at most.")
    tenant_id: Tenant | None = Field(None, description="Whose job it is. Under JWT the token says so.")
    run_at: Instant | None = Field(None, description=f"Not before this time, {_AHEAD}; not with delaySeconds.")
    delay_seconds: int | None = Field(
        None, ge=0, le=LONGEST_AHEAD // _SECOND, description=f"Not before so long from now, {_AHEAD}."
    )
    ordering_key: OrderingKey | None = Field(None, description="Jobs of one key run one at a time, in order (FIFO).")
    max_age_seconds: int | None = Field(
        None,
        ge=MIN_AGE // _SECOND,
        le=MAX_AGE // _SECOND,
        description="How long after its time the job may still start; without it, what its type says.",
    )
    tags: Tags | None = Field(None, description="Names and values to find the job by.")
