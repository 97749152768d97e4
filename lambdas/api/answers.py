"""Bodies of answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from lambdas.api.fields import Instant
from shared.domain.states import State


class Answer(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class AcceptedView(Answer):
    """The job record is committed."""

    job_id: str
    status: State
    status_url: str = Field(description="Where to ask for the job, relative to this API.")


class ProgressView(Answer):
    """How far the present run has come, in the job type's own unit."""

    done: int
    total: int
    unit: str


class ErrorView(Answer):
    """The last failed attempt."""

    failure_class: str = Field(serialization_alias="class", description="transient, deterministic, environmental, …")
    code: str | None = None
    message: str | None = Field(None, description="In the words of the job's author; other texts are the operator's.")
    first_at: Instant | None = Field(None, description="When an attempt failed for the first time.")
    last_at: Instant | None = None


class JobView(Answer):
    """One job as its record has it. Fields that do not apply are absent."""

    job_id: str
    type: str
    queue: str
    status: State
    payload_version: int
    tenant_id: str | None = None
    ordering_key: str | None = None
    tags: dict[str, str] | None = None
    attempts: int
    max_attempts: int
    progress: ProgressView | None = None
    created_at: Instant
    run_at: Instant
    started_at: Instant | None = None
    next_attempt_at: Instant | None = None
    completed_at: Instant | None = None
    dead_at: Instant | None = None
    ended_at: Instant | None = None
    deadline_at: Instant = Field(description="A job that has not started by then never will.")
    reason: str | None = Field(None, description="Why it waits, was cancelled or expired.")
    error: ErrorView | None = None
    result_url: str | None = Field(None, description="Leads to the result file, once there is one.")


class FaultView(Answer):
    """One thing wrong in the body."""

    pointer: str = Field(description="JSON pointer (RFC 6901) to the field; empty for the whole body.")
    detail: str


class Problem(Answer):
    """A refusal (RFC 9457)."""

    type: str = Field(description="Stable name of the kind of problem.")
    title: str
    status: int
    detail: str = Field(description="What is wrong with this request, and what to do.")
    errors: list[FaultView] | None = None
