"""Record: the item of history that a run leaves behind which did not complete."""

from __future__ import annotations

import hashlib
import traceback
from typing import Protocol

from shared.domain.job import Job, RunRecord, beside_expires_at
from shared.domain.retry import Failure
from shared.domain.writes import vanished
from shared.errors import StoreUnavailable
from shared.ports import Clock, JobStore, Log


class RecordPorts(Protocol):
    """What writing history needs of a worker's or a sweeper's ports."""

    @property
    def store(self) -> JobStore: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Log: ...


def record_run(
    job: Job, outcome: str, failure: Failure, ports: RecordPorts, error: BaseException | None = None
) -> None:
    """One item of history, after the guarded write that ended the run; best effort, the record itself says enough."""
    record = RunRecord(
        job_id=job.job_id,
        run=job.run,
        ended_at=ports.clock.now(),
        outcome=outcome,
        holder=job.holder,
        error_class=failure.failure_class.value,
        error_code=failure.code,
        error_message=failure.message,
        stack_digest=stack_digest(error),
        expires_at=beside_expires_at(job.deadline_at),
    )
    try:
        ports.store.record_run(record)
    except StoreUnavailable as e:
        ports.log.event("history-lost", level="warning", job=job.job_id, type=job.type, run=job.run, error=e)


def record_lapsed_run(found: Job, outcome: str, ports: RecordPorts) -> None:
    """History of a run whose worker vanished, written by whoever found its lease lapsed."""
    message = f"its lease ended at {found.lease_expires_at and found.lease_expires_at.isoformat()}"
    record_run(found, outcome, vanished(message), ports)


def stack_digest(error: BaseException | None) -> str | None:
    """Where it failed, and 8 hex digits that are equal for equal stacks: "invoice_export.py:88 1f3a…"."""
    if error is None or error.__traceback__ is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    path = ";".join(f"{frame.filename.rpartition('/')[2]}:{frame.name}" for frame in frames)
    digest = hashlib.sha256(f"{type(error).__name__};{path}".encode()).hexdigest()[:8]
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno} {digest}"
