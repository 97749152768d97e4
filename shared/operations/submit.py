"""Submit: validate, write the record. The record is intent, outbox row and duplicate guard in one conditional write,
so an answer of 202 is never a hope.

What a crash costs: after the payload item, before the record, an orphan that TTL removes; never a record without its
payload. After the record, before the answer, a job the caller may submit again under the same Idempotency-Key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from shared.domain.job import (
    INLINE_PAYLOAD_BYTES,
    MAX_PAYLOAD_BYTES,
    TENANT,
    Job,
    beside_expires_at,
    due_key,
    job_id_for_key,
    open_key,
    random_job_id,
    tenant_key,
    to_ms,
)
from shared.domain.states import OUTBOX_OPEN, State
from shared.domain.text import flaw
from shared.errors import (
    AlreadySubmitted,
    Fault,
    InvalidRequest,
    KeyReused,
    NotAllowed,
    PayloadTooLarge,
    UnknownJobType,
)
from shared.jobs import Catalogue, JobType
from shared.ports import JobStore, Row
from shared.queues import MAX_DELAY
from shared.quotas import LARGE_PAYLOAD_HORIZON

MIN_AGE, MAX_AGE = timedelta(minutes=1), timedelta(days=14)
LONGEST_AHEAD = timedelta(days=366)
MAX_TAGS, MAX_TAG_CHARACTERS = 10, 64
MAX_ORDERING_KEY_CHARACTERS = 64
ORDERING_KEY_RULE = f"1 to {MAX_ORDERING_KEY_CHARACTERS} printable ASCII characters without blanks"
TENANT_RULE = "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What a client asks for. run_at and delay exclude each other; None everywhere means the type's own default.

    by_tenant  the caller is a tenant, not one of the account's own services: it may submit only what is open to tenants
    beside  what the same transaction writes besides the job: part of the content that an Idempotency-Key names, or
            POST /jobs and POST /exports under one key would pass for each other and one of them write too little
    """

    type: str
    payload: Mapping[str, Any]
    tenant: str | None = None
    idempotency_key: str | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    ordering_key: str | None = None
    max_age: timedelta | None = None
    tags: Mapping[str, str] | None = None
    trace_id: str | None = None
    by_tenant: bool = False
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The durable job. `replayed`: this key had been accepted before, and nothing was written now."""

    job: Job
    replayed: bool


class TransactionalStore(JobStore, Protocol):
    """A store whose submit can be an element of somebody else's transaction."""

    def submit_write(self, job: Job, now: datetime) -> dict[str, Any]:
        """The write, in the store's own wire form."""


def submit(
    request: JobRequest,
    *,
    catalogue: Catalogue,
    store: JobStore,
    now: datetime,
    entropy: bytes,
    rows: Callable[[Job], Sequence[Row]] | None = None,
) -> Accepted:
    """Accept a job, with `rows` of the caller's own in the same transaction.

    entropy  10 random bytes for the id of a request without a key
    Raises UnknownJobType, NotAllowed, InvalidRequest, PayloadTooLarge, KeyReused (nothing was stored) and
    StoreUnavailable.
    """
    job, payload = _prepare(request, catalogue, now, entropy)
    if job.payload_ref is not None:
        store.put_payload(job.job_id, job.payload_ref, payload, beside_expires_at(job.deadline_at))
    try:
        if rows is None:
            store.submit(job, now)
        else:
            store.submit_with(job, rows(job), now)
    except AlreadySubmitted as e:
        if e.found.fingerprint != job.fingerprint:
            raise KeyReused(
                "this Idempotency-Key already names a job with another content; send the same body, or a new key"
            ) from e
        # Without a key only our own write, repeated after a lost answer, can hold this id.
        return Accepted(e.found, replayed=request.idempotency_key is not None)
    return Accepted(job, replayed=False)


def transact_items(
    request: JobRequest, *, catalogue: Catalogue, store: TransactionalStore, now: datetime, entropy: bytes
) -> tuple[Job, list[dict[str, Any]]]:
    """The writes for a TransactWriteItems of the caller's own: domain change and job intent commit together or not
    at all. A transaction cancelled by the job's condition means the job exists: read it, compare `fingerprint`.

    Raises as `submit`. A large payload is stored at once, harmless if the transaction never comes.
    """
    job, payload = _prepare(request, catalogue, now, entropy)
    if job.payload_ref is not None:
        store.put_payload(job.job_id, job.payload_ref, payload, beside_expires_at(job.deadline_at))
    return job, [store.submit_write(job, now)]


def _prepare(request: JobRequest, catalogue: Catalogue, now: datetime, entropy: bytes) -> tuple[Job, str]:
    job_type = _allowed(request, catalogue)
    request = replace(request, payload=job_type.filled(request.payload, request.tenant))
    faults = _faults(request, job_type, now)
    accepted, payload_faults = job_type.accept(request.payload)
    if accepted is None or faults:
        raise InvalidRequest(f"{len(faults + payload_faults)} field(s) are wrong", faults + payload_faults)
    tenant, payload = job_type.owner(accepted, request.tenant), accepted.model_dump_json(by_alias=True)
    size = len(payload.encode())
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"the payload has {size} bytes, a job carries {MAX_PAYLOAD_BYTES}: store it elsewhere, pass a pointer",
            [Fault("/payload", "too large")],
        )
    _refuse_to_keep(request, payload, now)
    return _job(request, job_type, tenant, payload, now, entropy), payload


def _allowed(request: JobRequest, catalogue: Catalogue) -> JobType:
    job_type = catalogue.get(request.type)
    if job_type is None:
        open_ones = [t.name for t in catalogue.all().values() if t.open_to_tenants or not request.by_tenant]
        known = ", ".join(open_ones) or "none"
        raise UnknownJobType(
            f"there is no job type {request.type[:60]!r}; there are: {known}", [Fault("/type", "not a known job type")]
        )
    if request.by_tenant and not job_type.open_to_tenants:
        raise NotAllowed(
            f"jobs of type {job_type.name!r} are submitted by the account's own services only",
            [Fault("/type", "not open to tenants")],
        )
    return job_type


def _faults(request: JobRequest, job_type: JobType, now: datetime) -> list[Fault]:
    """Everything wrong besides the payload, at once: a client should not have to ask five times."""
    checks = (
        (
            "/tenantId",
            request.tenant is not None and not TENANT.fullmatch(request.tenant),
            f"must be {TENANT_RULE}",
        ),
        (
            "/delaySeconds",
            request.delay is not None and request.run_at is not None,
            "give runAt or delaySeconds, not both",
        ),
        ("/delaySeconds", request.delay is not None and request.delay < timedelta(), "cannot be negative"),
        (
            "/maxAgeSeconds",
            request.max_age is not None and not MIN_AGE <= request.max_age <= MAX_AGE,
            f"must be {MIN_AGE.total_seconds():.0f} to {MAX_AGE.total_seconds():.0f} seconds",
        ),
        (
            "/orderingKey",
            request.ordering_key is not None and not job_type.queue.fifo,
            f"queue {job_type.queue.name!r} keeps no order; leave the key out, or move the type to a FIFO queue",
        ),
        (
            "/orderingKey",
            request.ordering_key is not None and not is_ordering_key(request.ordering_key),
            f"must be {ORDERING_KEY_RULE}",
        ),
        (
            "/tags",
            request.tags is not None and not _small(request.tags),
            f"must be at most {MAX_TAGS} tags, names and values of 1 to {MAX_TAG_CHARACTERS} characters",
        ),
    )
    named = [Fault(pointer, detail) for pointer, wrong, detail in checks if wrong]
    return named + _tag_faults(request.tags or {}) + _time_faults(request, now)


def _tag_faults(tags: Mapping[str, str]) -> list[Fault]:
    words = [word for pair in tags.items() for word in pair]
    return [Fault("/tags", f"a tag cannot hold {found}") for word in words if (found := flaw(word))][:1]


def _time_faults(request: JobRequest, now: datetime) -> list[Fault]:
    if _run_at(request, now) - now <= LONGEST_AHEAD:
        return []
    return [Fault(_time_pointer(request), f"must be at most {LONGEST_AHEAD.days} days ahead")]


def _time_pointer(request: JobRequest) -> str:
    return "/runAt" if request.run_at is not None else "/delaySeconds"


def _refuse_to_keep(request: JobRequest, payload: str, now: datetime) -> None:
    """A large payload is paid for by the byte for as long as its job waits. Raises InvalidRequest."""
    size = len(payload.encode())
    if size < INLINE_PAYLOAD_BYTES or _run_at(request, now) - now <= LARGE_PAYLOAD_HORIZON:
        return
    most = LARGE_PAYLOAD_HORIZON.days
    why = f"a payload of {size} bytes waits at most {most} days; for later, keep its data elsewhere and send a pointer"
    raise InvalidRequest(
        why, [Fault(_time_pointer(request), f"must be at most {most} days ahead with so large a payload")]
    )


def _job(
    request: JobRequest, job_type: JobType, tenant: str | None, payload: str, now: datetime, entropy: bytes
) -> Job:
    """`tenant` is whose job it is; id and fingerprint come from what was said, which need not name it twice."""
    key = request.idempotency_key
    job_id = random_job_id(now, entropy) if key is None else job_id_for_key(request.tenant, key)
    run_at = _run_at(request, now)
    starts_at = max(run_at, now)
    max_age = request.max_age or job_type.max_age
    inline = len(payload.encode()) < INLINE_PAYLOAD_BYTES
    # Due within MAX_DELAY it rides on its message's DelaySeconds; what is later, or on a FIFO lane, where SQS knows no
    # delay per message, waits in `due` for the promoter.
    later = starts_at - now > (timedelta() if job_type.queue.fifo else MAX_DELAY)
    place: dict[str, Any] = (
        {"state": State.SCHEDULED, "due_key": due_key(job_id), "due_at": starts_at}
        if later
        else {
            "state": State.QUEUED,
            "dispatch": 1,
            "outbox": OUTBOX_OPEN,
            "available_at": starts_at,
            "open_key": open_key(job_type.queue.name, job_id),
        }
    )
    return Job(
        job_id=job_id,
        type=job_type.name,
        queue=job_type.queue.name,
        **place,
        tenant=tenant,
        payload=payload if inline else None,
        payload_ref=None if inline else _digest(payload.encode()),
        payload_bytes=None if inline else len(payload.encode()),
        payload_version=job_type.version,
        fingerprint=_fingerprint(request),
        created_at=now,
        run_at=run_at,
        deadline_at=starts_at + max_age,
        max_age_seconds=int(max_age.total_seconds()),
        max_attempts=job_type.policy.max_attempts,
        ordering_key=request.ordering_key,
        tags=dict(request.tags) if request.tags else None,
        trace_id=request.trace_id,
        tenant_key=tenant_key(tenant, job_id) if tenant else None,
    )


def _run_at(request: JobRequest, now: datetime) -> datetime:
    return now + request.delay if request.delay is not None else request.run_at or now


def _fingerprint(request: JobRequest) -> bytes:
    """What was asked, not when (delaySeconds as given, not as a time), and as it was sent: were the payload's defaults
    filled in first, a deployment that adds a field would make the same body another one.
    """
    asked = [
        request.type,
        request.payload,
        request.tenant,
        None if request.run_at is None else to_ms(request.run_at),
        None if request.delay is None else request.delay.total_seconds(),
        request.ordering_key,
        None if request.max_age is None else request.max_age.total_seconds(),
        sorted((request.tags or {}).items()),
        request.beside,
    ]
    return _digest(json.dumps(asked, sort_keys=True).encode())


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:16]


def is_ordering_key(text: str) -> bool:
    """Whether SQS takes it as a group, whatever the lane."""
    return 0 < len(text) <= MAX_ORDERING_KEY_CHARACTERS and all("!" <= character <= "~" for character in text)


def _small(tags: Mapping[str, str]) -> bool:
    words = [*tags, *tags.values()]
    return len(tags) <= MAX_TAGS and all(0 < len(w) <= MAX_TAG_CHARACTERS for w in words)
