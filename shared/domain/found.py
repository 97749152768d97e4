"""What the record that a worker finds means for the message in its hands (the one rule for messages).

Only a final record or an older dispatch ever lets a message be deleted; deciding by state alone loses jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from shared.domain import writes
from shared.domain.doorbell import Bell
from shared.domain.job import Job
from shared.domain.lease import Lease, lapsed
from shared.domain.outcome import Outcome
from shared.domain.states import CLOCK_MARGIN, State
from shared.domain.writes import Write


@dataclass(frozen=True, slots=True)
class Stale:
    """The record is final or has a newer doorbell: acknowledge."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Our own lease, written by an earlier try whose answer was lost. A late one is over before we knew of it: ours to
    begin under only once it is renewed.
    """

    late: bool


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Its holder's lease ended, and the job may start again."""


@dataclass(frozen=True, slots=True)
class End:
    """It may not start: this write ends it, or sends a dead one round again."""

    write: Write
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Wait:
    """Someone holds it, or its time has not come: hide the message until then."""


Meaning = Stale | Ours | TakeOver | End | Wait


def found_by_message(found: Job, bell: Bell, holder: str, now: datetime, stall_limit: int) -> Meaning:
    """What to do about a message with this bell. holder: the token of the lease that was refused, "" where none was."""
    match state := found.state:
        case State.COMPLETED | State.CANCELLED | State.EXPIRED:
            return Stale()
        case State.DEAD:
            redriven = bell.dead_letter and bell.dispatch == found.dispatch
            return End(writes.replay_by_message(found, now), Outcome.REPLAYED) if redriven else Stale()
        case State.RUNNING if found.holder == holder:
            return Ours(late=not Lease(found.job_id, found.run, holder).lasts(found, now))
        case State.RUNNING | State.SCHEDULED | State.QUEUED | State.RETRYING:
            if bell.dispatch != found.dispatch:  # a later one: not yet visible here, or restored from an older backup
                return Stale() if bell.dispatch < found.dispatch else Wait()
            return _found_by_current(found, now, stall_limit)
    assert_never(state)


def _found_by_current(found: Job, now: datetime, stall_limit: int) -> TakeOver | End | Wait:
    if found.state is State.RUNNING:
        return after_lapse(found, now, stall_limit) if lapsed(found, now) else Wait()
    if found.cancel_request is not None:
        return End(writes.cancel(found, found.cancel_request, now), Outcome.CANCELLED)
    return End(writes.expire(found, now), Outcome.EXPIRED) if found.deadline_at <= now else Wait()


def after_lapse(found: Job, now: datetime, stall_limit: int) -> TakeOver | End:
    """What a running job whose lease has lapsed comes to: taken over, or one of the three ends."""
    if found.cancel_request is not None:
        return End(writes.cancel(found, found.cancel_request, now), Outcome.CANCELLED)
    if found.deadline_at <= now:
        return End(writes.expire(found, now), Outcome.EXPIRED)
    if found.attempts >= found.max_attempts or found.stalls >= stall_limit:
        return End(writes.dead_letter_lapsed(found, now), Outcome.DEAD)
    return TakeOver()


def wait(found: Job | None, now: datetime, fallback: timedelta) -> timedelta:
    """How long to hide a message that must wait: until the lease may be reclaimed, or the wait ends.

    `fallback` where the record does not say: a dispatch from the future, a job in `due`, a lapsed lease that this
    worker may not take over (a job type it does not know), whose message would come back at once, for ever.
    """
    if found is not None and found.state is State.RUNNING and found.lease_expires_at is not None:
        left = found.lease_expires_at + CLOCK_MARGIN - now
        return left if left > timedelta() else fallback
    if found is not None and found.state is State.RETRYING and found.next_attempt_at is not None:
        return max(found.next_attempt_at - now, timedelta())
    return fallback
