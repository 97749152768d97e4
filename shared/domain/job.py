"""The job record, as every part of the system sees it, and the small pure rules about its parts.

Times are aware UTC datetimes here, epoch milliseconds in the table (`expires_at`: seconds, which TTL demands).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.domain.states import State

MESSAGE_CUT = 200
INLINE_PAYLOAD_BYTES = 400
MAX_PAYLOAD_BYTES = 256 * 1024

RETENTION: Mapping[State, timedelta] = {
    State.COMPLETED: timedelta(days=14),
    State.CANCELLED: timedelta(days=14),
    State.EXPIRED: timedelta(days=30),
    State.DEAD: timedelta(days=90),
}
"""How long a record stays after its last move; TTL deletes hours to days later, so readers compare the time."""

LONGEST_RETENTION, SHORTEST_RETENTION = max(RETENTION.values()), min(RETENTION.values())

LATEST_END = timedelta(days=28)
"""Past its deadline a job's end is recorded no later: a message lies in a queue for at most fourteen days, and for as
long again in its DLQ, before the sweeper parks its job.
"""

TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Safe as an S3 key part, an SQS group id, a log field and an index key."""

SAID_AT_SUBMIT = ("type", "tenant", "payload", "payload_ref", "payload_version", "fingerprint")
"""What makes a record somebody's job of some type. No move writes or reads it, so the roles of workers, relay and
promoter may not name it in a write: without it, whatever they put into the table is nothing that a worker can run. The
queue is not among it: a job whose type has moved is rung on another lane, and what it is does not change by that.
"""

OPEN_SHARDS = DUE_SHARDS = 16
DEAD_SHARDS = TENANT_SHARDS = 8

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, in the handler's own unit ("pages")."""

    done: int
    total: int
    unit: str


EFFECT_STARTED, EFFECT_COMPLETED = "started", "done"
MAX_EFFECTS = 20
MAX_EFFECT_NAME = 64
MAX_CHECKPOINT_BYTES = 1024
MAX_OUTCOME_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One guarded side effect of a job.

    run      the run that started it
    outcome  JSON text of {"outcome": …} once completed; small, a pointer rather than a document
    """

    status: str
    run: int
    at: datetime
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One record. The fields with a default are absent from the table while they are None.

    max_age_seconds  how long after its time the job may still start; a replay renews deadline_at by it
    fingerprint      16 bytes of a digest of what was asked, which an Idempotency-Key names
    payload_ref      names the PAYLOAD item where the payload is too large for the record
    payload_bytes    its size, there
    error_told       digest of the error_message that callers may read; see told.py
    """

    job_id: str
    type: str
    queue: str
    state: State
    payload_version: int
    created_at: datetime
    run_at: datetime
    deadline_at: datetime
    max_age_seconds: int
    max_attempts: int
    fingerprint: bytes
    run: int = 0
    attempts: int = 0
    stalls: int = 0
    dispatch: int = 0
    tenant: str | None = None
    payload: str | None = None
    payload_ref: bytes | None = None
    payload_bytes: int | None = None
    ordering_key: str | None = None
    tags: Mapping[str, str] | None = None
    trace_id: str | None = None
    outbox: str | None = None
    published_at: datetime | None = None
    queued_at: datetime | None = None
    rung_at: datetime | None = None
    rerouted_at: datetime | None = None
    holder: str | None = None
    lease_expires_at: datetime | None = None
    available_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    dead_at: datetime | None = None
    ended_at: datetime | None = None
    next_attempt_at: datetime | None = None
    reason: str | None = None
    error_class: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    error_told: bytes | None = None
    first_error_at: datetime | None = None
    last_error_at: datetime | None = None
    result: Mapping[str, Any] | None = None
    progress: Progress | None = None
    checkpoint: Mapping[str, Any] | None = None
    effects: Mapping[str, Effect] = field(default_factory=dict)
    code_version: str | None = None
    cancel_request: Mapping[str, str] | None = None
    cancelled_by: str | None = None
    expires_at: datetime | None = None
    open_key: str | None = None
    due_key: str | None = None
    due_at: datetime | None = None
    dead_key: str | None = None
    tenant_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """History: one run that did not complete, written after the guarded write that ended it."""

    job_id: str
    run: int
    ended_at: datetime
    outcome: str
    holder: str | None
    error_class: str | None
    error_code: str | None
    error_message: str | None
    stack_digest: str | None
    expires_at: datetime


def beside_expires_at(deadline_at: datetime) -> datetime:
    """How long what stands beside a record (payload, history) is kept: as long as the record, however it ends."""
    return deadline_at + LATEST_END + LONGEST_RETENTION


def own_runs(job: Job, runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Those of this job. A key whose record TTL removed may live again under the same id, and history outlives the
    record: the former job's runs ended a whole retention before this one was created.
    """
    former_until = job.created_at - SHORTEST_RETENTION / 2  # no two clocks differ by days
    return [run for run in runs if run.ended_at > former_until]


def job_id_for_key(tenant: str | None, key: str) -> str:
    """The id that (tenant, Idempotency-Key) always names: 26 base-32 characters of a SHA-256, so 130 bits."""
    return "job_" + _base32(int.from_bytes(tenants_own(tenant, key), "big") >> 126)


def tenants_own(tenant: str | None, key: str) -> bytes:
    """A digest (SHA-256) of one tenant's key, which is no other tenant's: the length keeps ("ab", "c") and ("a", "bc")
    apart.
    """
    return hashlib.sha256(f"{len(tenant or '')}:{tenant or ''}:{key}".encode()).digest()


def random_job_id(now: datetime, entropy: bytes) -> str:
    """A fresh id that sorts by time: 48 bits of epoch milliseconds, then 80 bits of `entropy` (10 bytes), as ULID."""
    if len(entropy) != 10:
        raise ValueError(f"a job id takes 10 bytes of entropy, got {len(entropy)}")
    return "job_" + _base32((to_ms(now) << 80) | int.from_bytes(entropy, "big"))


def _base32(number: int) -> str:
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


JOB_ID = re.compile(r"job_[0-9A-HJKMNP-TV-Z]{26}")


def shard(job_id: str, shards: int) -> int:
    """Spreads an index over partitions; a key on a bare state would throttle the base table."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:4], "big") % shards


def open_key(queue: str, job_id: str) -> str:
    """Hash key of the `open` index."""
    return f"open#{queue}#{shard(job_id, OPEN_SHARDS)}"


def due_key(job_id: str) -> str:
    """Hash key of the `due` index."""
    return f"due#{shard(job_id, DUE_SHARDS)}"


def dead_key(queue: str, job_id: str) -> str:
    """Hash key of the `dead` index."""
    return f"dead#{queue}#{shard(job_id, DEAD_SHARDS)}"


def tenant_key(tenant: str, job_id: str) -> str:
    """Hash key of the `tenant` index."""
    return f"tenant#{tenant}#{shard(job_id, TENANT_SHARDS)}"


def to_ms(at: datetime) -> int:
    """Epoch milliseconds. Integer arithmetic: float timestamps lose a millisecond now and then."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: int) -> datetime:
    """The aware UTC datetime of these epoch milliseconds."""
    return _EPOCH + timedelta(milliseconds=ms)


def as_stored(field: str, value: Any) -> Any:
    """The value as the table gives it back: times in whole milliseconds, `expires_at` in whole seconds."""
    if isinstance(value, Effect):
        return replace(value, at=as_stored("at", value.at))
    if not isinstance(value, datetime):
        return value
    step = timedelta(seconds=1) if field == "expires_at" else timedelta(milliseconds=1)
    return _EPOCH + (value - _EPOCH) // step * step


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
