"""What a run that did not complete leaves behind: the record's error fields, and one item of history."""

from __future__ import annotations

import hashlib
import traceback
from datetime import datetime
from typing import Any, Protocol

from shared.domain.job import RETENTION, Job, RunRecord, beside_expires_at, dead_key
from shared.domain.reasons import last_words
from shared.domain.retry import Failure, FailureClass
from shared.domain.states import State
from shared.domain.told import told_digest
from shared.errors import StoreUnavailable
from shared.ports import Clock, JobStore, Log


class HistoryPorts(Protocol):
    """What writing history needs of a worker's or a sweeper's ports."""

    @property
    def store(self) -> JobStore: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Log: ...


def error_changes(failure: Failure, now: datetime) -> dict[str, Any]:
    """The record's fields of a failed attempt."""
    mark = {"error_told": told_digest(failure.message)} if failure.told else {}
    return mark | {
        "error_class": failure.failure_class.value,
        "error_code": failure.code,
        "error_message": failure.message,
        "last_error_at": now,
        "first_error_at": now,
    }


def dead_changes(job: Job, failure: Failure, now: datetime) -> dict[str, Any]:
    """The record's fields of a dead letter, which lose no reason that was known before."""
    return error_changes(last_words(failure, job), now) | {
        "dead_at": now,
        "dead_key": dead_key(job.queue, job.job_id),
        "expires_at": now + RETENTION[State.DEAD],
    }


def record_run(
    job: Job, outcome: str, failure: Failure, ports: HistoryPorts, error: BaseException | None = None
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


def record_lapsed_run(found: Job, outcome: str, ports: HistoryPorts) -> None:
    """History of a run whose worker vanished, written by whoever found its lease lapsed."""
    message = f"its lease ended at {found.lease_expires_at and found.lease_expires_at.isoformat()}"
    record_run(found, outcome, Failure(FailureClass.STALLED, "worker-vanished", message, told=True), ports)


def stack_digest(error: BaseException | None) -> str | None:
    """Where it failed, and 8 hex digits that are equal for equal stacks: "invoice_export.py:88 1f3a…"."""
    if error is None or error.__traceback__ is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    path = ";".join(f"{frame.filename.rpartition('/')[2]}:{frame.name}" for frame in frames)
    digest = hashlib.sha256(f"{type(error).__name__};{path}".encode()).hexdigest()[:8]
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno} {digest}"
