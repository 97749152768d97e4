"""What each move writes: one constructor a move, so that a field that is missing or alien is a type error.

A write is a row of the table, what its caller had seen of the record, and the values it brings. Those made under a
lease need only that; those about a record that nobody holds need the record exactly as it was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.domain.job import RETENTION, Effect, Job, Progress, dead_key, due_key, open_key
from shared.domain.lease import Lease, as_found
from shared.domain.reasons import last_words
from shared.domain.retry import Failure, FailureClass
from shared.domain.run import StoredFile
from shared.domain.states import (
    CANCEL,
    CANCEL_LAPSED,
    CANCEL_RUNNING,
    COMPLETE,
    CONTINUE,
    DEAD_LETTER,
    DEAD_LETTER_LAPSED,
    DEFER,
    DEFER_LATER,
    DEFER_UNLEASED,
    DEFER_UNLEASED_LATER,
    ERASE_EFFECT,
    EXPIRE,
    EXPIRE_LAPSED,
    FINISH_EFFECT,
    LEASE,
    MARK,
    PARK,
    PARK_LAPSED,
    PROMOTE,
    RECLAIM,
    REDISPATCH,
    RENEW,
    REPLAY,
    REPLAY_BY_MESSAGE,
    REQUEST_CANCEL,
    REQUEST_OWN_CANCEL,
    REQUEUE,
    REROUTE,
    RETRY,
    RETRY_LATER,
    RING_AGAIN,
    START_EFFECT,
    START_EFFECT_AT_MOST_ONCE,
    Seen,
    State,
    Transition,
)
from shared.domain.told import told_digest, with_what_stood_in_its_way

TOO_OLD = "its deadline passed before it could run"


@dataclass(frozen=True, slots=True)
class Write:
    """One move of one job, ready to be made.

    changes  the fields that the move sets; a store raises ValueError for one that its row does not name
    """

    move: Transition
    seen: Seen
    changes: Mapping[str, Any] = field(default_factory=dict)


# ---- taking a job ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a lease says: its holder's token, when it began and ends, and the version of the code that runs it."""

    holder: str
    started_at: datetime
    ends_at: datetime
    code_version: str

    @property
    def changes(self) -> dict[str, Any]:
        """As fields of the record."""
        return {
            "holder": self.holder,
            "started_at": self.started_at,
            "lease_expires_at": self.ends_at,
            "code_version": self.code_version,
        }


def lease(dispatch: int, terms: Terms) -> Write:
    """Begin a run of the job whose doorbell has this dispatch."""
    return Write(LEASE, Seen(now=terms.started_at, dispatch=dispatch), terms.changes)


def reclaim(found: Job, terms: Terms) -> Write:
    """Take over a job whose lease lapsed."""
    return Write(RECLAIM, as_found(found, terms.started_at), terms.changes)


def renew(lease: Lease, ends_at: datetime, progress: Progress | None = None) -> Write:
    """Keep it until then."""
    return Write(RENEW, lease.seen(), {"lease_expires_at": ends_at, **_said(progress)})


# ---- how a run ends --------------------------------------------------------------------------------------------------


def complete(lease: Lease, result: StoredFile | None, now: datetime, progress: Progress | None) -> Write:
    """The work is done, with the pointer to its result."""
    changes = {"completed_at": now, "expires_at": now + RETENTION[State.COMPLETED], **_said(progress)}
    return Write(COMPLETE, lease.seen(), changes if result is None else changes | {"result": {"file": _file(result)}})


def retry(
    lease: Lease, failure: Failure, at: datetime, now: datetime, progress: Progress | None, *, leaves_message: bool
) -> Write:
    """The attempt failed; the next one is at `at`, in `due` where the job leaves its message."""
    changes = {"next_attempt_at": at, **error_fields(failure, now), **_said(progress)}
    return _waiting(lease, RETRY_LATER if leaves_message else RETRY, changes, at, leaves_message)


def defer(
    lease: Lease,
    reason: str,
    failure: Failure | None,
    at: datetime,
    now: datetime,
    progress: Progress | None,
    *,
    leaves_message: bool,
) -> Write:
    """Not now, and no attempt is spent. failure: what it waits out, if that is why."""
    told = {} if failure is None else error_fields(failure, now)
    changes = {"next_attempt_at": at, "reason": reason, **told, **_said(progress)}
    return _waiting(lease, DEFER_LATER if leaves_message else DEFER, changes, at, leaves_message)


def _waiting(lease: Lease, move: Transition, changes: Mapping[str, Any], at: datetime, leaves_message: bool) -> Write:
    return Write(move, lease.seen(), {**changes, **_into_due(lease.job_id, at)} if leaves_message else changes)


def continue_from(lease: Lease, checkpoint: Mapping[str, Any], now: datetime, progress: Progress | None) -> Write:
    """The rest is another run's, at once."""
    changes = {"checkpoint": checkpoint, "available_at": now, "queued_at": now, **_said(progress)}
    return Write(CONTINUE, lease.seen(checkpoint), changes)


def dead_letter(lease: Lease, job: Job, failure: Failure, now: datetime, progress: Progress | None) -> Write:
    """Stop it for a human."""
    return Write(DEAD_LETTER, lease.seen(), dead_fields(job, failure, now) | _said(progress))


def request_own_cancel(lease: Lease, request: Mapping[str, str]) -> Write:
    """Its handler says that it is not wanted any more; the cancellation follows."""
    return Write(REQUEST_OWN_CANCEL, lease.seen(), {"cancel_request": request})


def cancel_running(lease: Lease, request: Mapping[str, str], now: datetime, progress: Progress | None) -> Write:
    """Stop on request."""
    return Write(CANCEL_RUNNING, lease.seen(), cancelled_fields(request, now) | _said(progress))


# ---- effects ---------------------------------------------------------------------------------------------------------


def start_effect(lease: Lease, name: str, entry: Effect, *, at_most_once: bool) -> Write:
    """It begins, unless it was done before."""
    move = START_EFFECT_AT_MOST_ONCE if at_most_once else START_EFFECT
    return Write(move, lease.seen(effect=name), {"effect": entry})


def finish_effect(lease: Lease, name: str, entry: Effect) -> Write:
    """It is done, with this outcome."""
    return Write(FINISH_EFFECT, lease.seen(effect=name), {"effect": entry})


def erase_effect(lease: Lease, name: str) -> Write:
    """It did not take place."""
    return Write(ERASE_EFFECT, lease.seen(effect=name))


# ---- without a lease -------------------------------------------------------------------------------------------------


def defer_unleased(
    job_id: str, dispatch: int, reason: str, at: datetime, now: datetime, *, leaves_message: bool
) -> Write:
    """No worker here may start it now."""
    changes = {"next_attempt_at": at, "reason": reason}
    if leaves_message:
        return Write(DEFER_UNLEASED_LATER, Seen(now=now, dispatch=dispatch), changes | _into_due(job_id, at))
    return Write(DEFER_UNLEASED, Seen(now=now, dispatch=dispatch), changes)


def reroute(job_id: str, dispatch: int, lane: str, now: datetime) -> Write:
    """Ring it on another lane."""
    changes = {"queue": lane, "open_key": open_key(lane, job_id), "rerouted_at": now, "queued_at": now}
    return Write(REROUTE, Seen(now=now, dispatch=dispatch), changes)


def mark(dispatch: int, now: datetime) -> Write:
    """Its doorbell was sent."""
    return Write(MARK, Seen(dispatch=dispatch), {"published_at": now})


def promote(job: Job, available_at: datetime, horizon: datetime, now: datetime) -> Write:
    """Its time has come, or comes before `horizon`."""
    changes = {"open_key": open_key(job.queue, job.job_id), "available_at": available_at, "queued_at": now}
    return Write(PROMOTE, Seen(dispatch=job.dispatch, horizon=horizon), changes)


# ---- repairs ---------------------------------------------------------------------------------------------------------


def ring_again(found: Job, now: datetime) -> Write:
    """The same doorbell once more."""
    return Write(RING_AGAIN, as_found(found, now), {"rung_at": now})


def redispatch(found: Job, now: datetime) -> Write:
    """A fresh doorbell for a wait that is over."""
    return Write(REDISPATCH, as_found(found, now), {"queued_at": now})


def requeue(found: Job, now: datetime) -> Write:
    """A fresh doorbell for a job whose worker vanished."""
    return Write(REQUEUE, as_found(found, now), {"queued_at": now})


def park(found: Job, now: datetime) -> Write:
    """SQS gave up on its message. Attempts as seen: once a worker got hold of a second copy, the job lives."""
    why = FailureClass.NEVER_RAN if found.attempts == 0 else FailureClass.STALLED
    said = with_what_stood_in_its_way(f"SQS gave up on its message after {found.attempts} attempts", found)
    move = PARK_LAPSED if found.state is State.RUNNING else PARK
    return Write(move, as_found(found, now), dead_fields(found, Failure(why, "parked-by-sqs", said, told=True), now))


def dead_letter_lapsed(found: Job, now: datetime) -> Write:
    """Its worker vanished, and it may not start again."""
    failure = vanished(f"run {found.run} ended without a word")
    return Write(DEAD_LETTER_LAPSED, as_found(found, now), dead_fields(found, failure, now))


def expire(found: Job, now: datetime) -> Write:
    """It is too old to start."""
    reason = with_what_stood_in_its_way(TOO_OLD, found)
    changes = {"reason": reason, "ended_at": now, "expires_at": now + RETENTION[State.EXPIRED]}
    return Write(EXPIRE_LAPSED if found.state is State.RUNNING else EXPIRE, as_found(found, now), changes)


# ---- what people ask for ---------------------------------------------------------------------------------------------


def request_cancel(request: Mapping[str, str]) -> Write:
    """Ask the worker that runs it to stop."""
    return Write(REQUEST_CANCEL, Seen(), {"cancel_request": request})


def cancel(found: Job, request: Mapping[str, str], now: datetime) -> Write:
    """Cancel a job that nobody runs, one whose worker vanished included."""
    move = CANCEL_LAPSED if found.state is State.RUNNING else CANCEL
    return Write(move, as_found(found, now), cancelled_fields(request, now))


def replay(found: Job, lane: str | None, now: datetime) -> Write:
    """Send it round again. lane: where, if not where it was."""
    lane = lane or found.queue
    moved = {} if lane == found.queue else {"queue": lane}
    return Write(REPLAY, as_found(found, now), moved | _replayed_fields(found, lane, now))


def replay_by_message(found: Job, now: datetime) -> Write:
    """The same, asked for by a copy that was redriven from the DLQ."""
    return Write(REPLAY_BY_MESSAGE, as_found(found, now), _replayed_fields(found, found.queue, now))


# ---- fields ----------------------------------------------------------------------------------------------------------


def vanished(message: str) -> Failure:
    """How a run failed whose worker vanished."""
    return Failure(FailureClass.STALLED, "worker-vanished", message, told=True)


def error_fields(failure: Failure, now: datetime) -> dict[str, Any]:
    """What the record keeps of a failed attempt."""
    mark = {"error_told": told_digest(failure.message)} if failure.told else {}
    return mark | {
        "error_class": failure.failure_class.value,
        "error_code": failure.code,
        "error_message": failure.message,
        "last_error_at": now,
        "first_error_at": now,
    }


def dead_fields(job: Job, failure: Failure, now: datetime) -> dict[str, Any]:
    """What it keeps of a death, which loses no reason that was known before."""
    return error_fields(last_words(failure, job), now) | {
        "dead_at": now,
        "dead_key": dead_key(job.queue, job.job_id),
        "expires_at": now + RETENTION[State.DEAD],
    }


def cancelled_fields(request: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """What it keeps of a cancellation: who asked, and why."""
    return {
        "cancelled_by": request.get("who", "unknown"),
        "reason": request.get("why", "cancelled on request"),
        "ended_at": now,
        "expires_at": now + RETENTION[State.CANCELLED],
    }


def replayed_deadline(found: Job, now: datetime) -> datetime:
    """A replayed job has its whole age before it again."""
    return now + timedelta(seconds=found.max_age_seconds)


def _replayed_fields(found: Job, lane: str, now: datetime) -> dict[str, Any]:
    return {
        "open_key": open_key(lane, found.job_id),
        "available_at": now,
        "queued_at": now,
        "deadline_at": replayed_deadline(found, now),
    }


def _into_due(job_id: str, at: datetime) -> dict[str, Any]:
    return {"due_key": due_key(job_id), "due_at": at}


def _said(progress: Progress | None) -> dict[str, Any]:
    return {} if progress is None else {"progress": progress}


def _file(result: StoredFile) -> dict[str, Any]:
    file = {"key": result.key, "size": result.size, "contentType": result.content_type}
    return file if result.version is None else file | {"version": result.version}
