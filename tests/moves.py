"""For every row of the transition table: a record that allows it, what must be seen, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, Effect, Job, Progress, due_key
from shared.domain.states import (
    OUTBOX_OPEN,
    Arm,
    EffectFree,
    EffectMine,
    Either,
    Exists,
    Guard,
    Missing,
    Seen,
    State,
    Transition,
    Versus,
)
from tests.builders import NOW, a_job

CHANGES: Mapping[str, Any] = {
    "queue": "thumbnails",
    "open_key": "open#exports.month-end#3",
    "rerouted_at": NOW,
    "available_at": NOW,
    "run_at": NOW + timedelta(hours=2),
    "due_key": "due#7",
    "due_at": NOW + timedelta(hours=2),
    "rung_at": NOW,
    "queued_at": NOW,
    "holder": "holder-2",
    "lease_expires_at": NOW + timedelta(seconds=30),
    "started_at": NOW,
    "code_version": "abc1234",
    "completed_at": NOW,
    "expires_at": NOW + timedelta(days=14),
    "next_attempt_at": NOW + timedelta(seconds=5),
    "error_class": "transient",
    "error_code": "s3-throttled",
    "error_message": "SlowDown",
    "error_told": b"\x01" * 8,
    "last_error_at": NOW,
    "first_error_at": NOW,
    "reason": "because",
    "checkpoint": {"page": 7},
    "dead_at": NOW,
    "dead_key": "dead#exports.month-end#1",
    "ended_at": NOW,
    "cancel_request": {"who": "op1", "why": "stop"},
    "cancelled_by": "op1",
    "deadline_at": NOW + timedelta(hours=24),
    "published_at": NOW,
    "result": {"file": {"key": "exports/a.pdf", "size": 12, "contentType": "application/pdf"}},
    "progress": Progress(3, 9, "pages"),
    "effect": Effect(status=EFFECT_COMPLETED, run=3, at=NOW, outcome='{"outcome":"ch_1"}'),
}


def changes_for(move: Transition) -> dict[str, Any]:
    """Everything the move may write."""
    return {name: CHANGES[name] for name in (*move.sets, *move.may, *move.first)}


def record_for(move: Transition, arm: Arm, state: State) -> Job:
    """A record in `state` that allows the move."""
    job = a_job(
        state=state,
        run=3,
        attempts=2,
        dispatch=4,
        holder="holder-1",
        lease_expires_at=NOW - timedelta(seconds=10) if state is State.RUNNING else None,
        next_attempt_at=NOW - timedelta(seconds=1) if state is State.RETRYING else None,
        due_key="due#1" if state is State.SCHEDULED else None,
        due_at=NOW if state is State.SCHEDULED else None,
        checkpoint={"page": 1},
    )
    for guard in (*move.guards, *arm.guards):
        job = satisfied(guard, job)
    return job


def seen_for(job: Job) -> Seen:
    """The record exactly as it is."""
    return Seen(
        now=NOW,
        dispatch=job.dispatch,
        run=job.run,
        holder=job.holder,
        attempts=job.attempts,
        lease_expires_at=job.lease_expires_at or NOW,
        outbox=job.outbox,
        published_at=job.published_at,
        horizon=NOW + timedelta(minutes=3),
        stall_limit=1,
        checkpoint={"page": 7},
        effect="charge",
    )


def _with(job: Job, status: str, run: int) -> Job:
    """The job with the effect that `seen_for` names, beside one that no move may touch."""
    other = Effect(status=EFFECT_COMPLETED, run=1, at=NOW, outcome='{"outcome":null}')
    return replace(job, effects={"charge": Effect(status=status, run=run, at=NOW), "other": other})


def satisfied(guard: Guard, job: Job) -> Job:
    """The record changed so that the guard holds."""
    match guard:
        case Exists("due_key"):
            return replace(job, due_key=due_key(job.job_id), due_at=NOW)
        case Exists("cancel_request"):
            return replace(job, cancel_request={"who": "op1", "why": "stop"})
        case Missing(name) if name != "job_id":
            return replace(job, **{name: None})
        case Versus("deadline_at", "<="):
            return replace(job, deadline_at=NOW)
        case Either(options) if Versus("attempts", ">=", other="max_attempts") in options:
            return replace(job, stalls=1)
        case EffectFree(takeover=True):
            return _with(job, EFFECT_STARTED, job.run - 1)
        case EffectMine():
            return _with(job, EFFECT_STARTED, job.run)
    return job


def broken(guard: Guard, job: Job) -> list[Job]:
    """Records that differ from `job` only so that the guard no longer holds; one for each way to break it."""
    later, earlier = timedelta(seconds=1), -timedelta(seconds=1)
    match guard:
        case Versus(name, "=") if name in ("run", "dispatch", "attempts"):
            return [replace(job, **{name: getattr(job, name) + 1})]
        case Versus("holder"):
            return [replace(job, holder="somebody"), replace(job, holder=None)]
        case Versus("lease_expires_at", "="):
            return [replace(job, lease_expires_at=job.lease_expires_at + by) for by in (later, earlier)]  # type: ignore[operator]
        case Versus("deadline_at", ">"):
            return [replace(job, deadline_at=NOW)]
        case Versus("deadline_at", "<="):
            return [replace(job, deadline_at=NOW + later)]
        case Versus("attempts", "<"):
            return [replace(job, attempts=job.max_attempts)]
        case Versus("stalls", "<"):
            return [replace(job, stalls=1)]
        case Versus("due_at", "<="):
            return [replace(job, due_at=NOW + timedelta(minutes=4)), replace(job, due_at=None)]
        case Versus("next_attempt_at", "<="):
            return [replace(job, next_attempt_at=NOW + later), replace(job, next_attempt_at=None)]
        case Exists(name):
            return [replace(job, **{name: None})]
        case Missing("due_key"):
            return [replace(job, due_key="due#1", due_at=NOW)]
        case Missing("cancel_request"):
            return [replace(job, cancel_request={"who": "op1", "why": "stop"})]
        case Either(options) if any(getattr(o, "field", "") == "checkpoint" for o in options):
            return [replace(job, checkpoint={"page": 7})]
        case Either(options) if Versus("attempts", ">=", other="max_attempts") in options:
            return [replace(job, stalls=0, attempts=2)]
        case Either(options) if Missing("rerouted_at") in options:
            return [replace(job, rerouted_at=NOW - timedelta(minutes=14))]
        case EffectFree(takeover=True):
            return [_with(job, EFFECT_COMPLETED, job.run - 1), _with(job, EFFECT_STARTED, job.run)]
        case EffectFree(takeover=False):
            return [_with(job, EFFECT_COMPLETED, job.run - 1), _with(job, EFFECT_STARTED, job.run - 1)]
        case EffectMine():
            return [
                _with(job, EFFECT_COMPLETED, job.run),
                _with(job, EFFECT_STARTED, job.run - 1),
                replace(job, effects={}),
            ]
        case _ if getattr(guard, "field", "") == "outbox":
            return [replace(job, outbox=None if job.outbox else OUTBOX_OPEN)]
        case _ if getattr(guard, "field", "") == "published_at":
            return [replace(job, published_at=NOW + later)]
    return []  # Versus(lease_expires_at <= lapse_limit) is broken by the clock: see the tests
