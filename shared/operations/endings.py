"""Endings: the write that ends, or replays, a job which may not start; a worker's and the sweeper's alike."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from shared.domain.job import RETENTION, Job, beside_expires_at, open_key
from shared.domain.lease import Next
from shared.domain.outcome import Outcome
from shared.domain.retry import Failure, FailureClass
from shared.domain.states import (
    CANCEL,
    CANCEL_LAPSED,
    DEAD_LETTER_LAPSED,
    EXPIRE,
    EXPIRE_LAPSED,
    REPLAY_BY_MESSAGE,
    State,
    Transition,
)
from shared.domain.told import with_what_stood_in_its_way
from shared.operations.history import dead_changes
from shared.ports import JobStore

TOO_OLD = "its deadline passed before it could run"


def ending(following: Next, found: Job, now: datetime) -> tuple[Transition, dict[str, Any], Outcome]:
    """The move, what it writes, and what that makes of the job's message."""
    match following:
        case Next.EXPIRE | Next.EXPIRE_LAPSED:
            changes = {"reason": with_what_stood_in_its_way(TOO_OLD, found), "ended_at": now}
            move = EXPIRE if following is Next.EXPIRE else EXPIRE_LAPSED
            return move, changes | {"expires_at": now + RETENTION[State.EXPIRED]}, Outcome.EXPIRED
        case Next.CANCEL | Next.CANCEL_LAPSED:
            move = CANCEL if following is Next.CANCEL else CANCEL_LAPSED
            return move, cancel_changes(found.cancel_request or {}, now), Outcome.CANCELLED
        case Next.REPLAY:
            return REPLAY_BY_MESSAGE, replay_changes(found, now), Outcome.REPLAYED
        case Next.DEAD_LETTER_LAPSED:
            said = f"run {found.run} ended without a word"
            failure = Failure(FailureClass.STALLED, "worker-vanished", said, told=True)
            return DEAD_LETTER_LAPSED, dead_changes(found, failure, now), Outcome.DEAD
    raise AssertionError(f"{following} ends no job")


def cancel_changes(request: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """What a cancellation writes: who asked, and why."""
    return {
        "cancelled_by": request.get("who", "unknown"),
        "reason": request.get("why", "cancelled on request"),
        "ended_at": now,
        "expires_at": now + RETENTION[State.CANCELLED],
    }


def renew_payload(found: Job, deadline_at: datetime, store: JobStore) -> bool:
    """Keep the stored payload, if there is one, for a replay that ends at `deadline_at` the latest: its time to live
    was fixed for the job's former age. False: it is gone. Raises StoreUnavailable.
    """
    until = beside_expires_at(deadline_at)
    return found.payload_ref is None or store.renew_payload(found.job_id, found.payload_ref, until)


def replay_changes(found: Job, now: datetime, lane: str | None = None) -> dict[str, Any]:
    """What a replay writes: the job may start at once, and has its whole age before it again. `lane`: where, if not
    where it was.
    """
    moved = {} if lane in (None, found.queue) else {"queue": lane}
    return moved | {
        "open_key": open_key(lane or found.queue, found.job_id),
        "available_at": now,
        "queued_at": now,
        "deadline_at": now + timedelta(seconds=found.max_age_seconds),
    }
