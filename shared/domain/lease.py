"""Leases and what a refused one means: pure decisions, acted on by operations/run.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from shared.domain.job import Job, as_stored
from shared.domain.states import CLOCK_MARGIN, DEFAULT_STALL_LIMIT, FINAL, Seen, State, Transition

REDELIVERY_MARGIN = CLOCK_MARGIN
"""A message comes back this long after its lease ends, when the next worker may reclaim at once: the lease counts from
just before the message was hidden, so it never ends later than the message's rest allows.
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """Temporary ownership of a job: its run number (the fence) and a token that only this holder knows."""

    job_id: str
    run: int
    holder: str

    def seen(self, checkpoint: Mapping[str, object] | None = None) -> Seen:
        """What a write under this lease must find in the record."""
        return Seen(run=self.run, holder=self.holder, checkpoint=checkpoint)

    def is_of(self, found: Job | None) -> bool:
        """Whether no other worker has had the job since. The run number alone does not say so: the record of a key may
        live twice.
        """
        return found is not None and (found.run, found.holder) == (self.run, self.holder)

    def lasts(self, found: Job | None, now: datetime) -> bool:
        """Whether something may be begun under it: the job runs, is ours, and its lease is not over by our clock.
        `found` is as old as the answer that brought it, which may have come late.
        """
        ends_at = None if found is None else found.lease_expires_at
        running = found is not None and found.state is State.RUNNING
        return running and self.is_of(found) and ends_at is not None and now < ends_at

    def landed(self, found: Job | None, move: Transition, changes: Mapping[str, Any], effect: str = "") -> bool:
        """Whether a move of this lease that was refused had been made before, by a try whose answer was lost. What it
        wrote is told by its content; the lease need not last, since nothing begins by it.
        """
        if found is None or not self.is_of(found) or found.state is not (move.target or State.RUNNING):
            return False
        if "effect" in move.drops:
            return effect not in found.effects
        shown = {name: found.effects.get(effect) if name == "effect" else getattr(found, name) for name in changes}
        told = [name for name in changes if name not in move.first]
        return all(as_stored(name, shown[name]) == as_stored(name, changes[name]) for name in told)


class Next(Enum):
    """What to do with a message whose lease was refused."""

    ORPHAN = auto()  # no record: a copy to the DLQ for a human, acknowledge
    ACKNOWLEDGE = auto()  # the record is final, or the message is older than the record's current doorbell
    REPLAY = auto()  # a redriven copy of a dead job at its current dispatch: an operator wants it run
    WON = auto()  # our own lease, written by an earlier try whose answer was lost
    RENEW = auto()  # the same, but over before we knew of it: ours to begin under only once it is renewed
    CANCEL = auto()  # queued or retrying under a cancel request
    EXPIRE = auto()  # its deadline passed before it could run
    RECLAIM = auto()  # its holder's lease ended
    DEAD_LETTER_LAPSED = auto()  # its holder's lease ended and it may not start again
    CANCEL_LAPSED = auto()
    EXPIRE_LAPSED = auto()
    WAIT = auto()  # someone holds it, or its time has not come: hide the message until then


def next_after_refusal(
    found: Job | None, *, dispatch: int, dead_letter_mark: bool, holder: str, now: datetime, stall_limit: int
) -> Next:
    """What the record found means for a message with this dispatch (DESIGN §5: the one rule for messages).

    Only a final record or an older dispatch ever lets a message be deleted; deciding by state alone loses jobs.
    """
    if found is None:
        return Next.ORPHAN
    if found.state is State.RUNNING and found.holder == holder:
        return Next.WON if Lease(found.job_id, found.run, holder).lasts(found, now) else Next.RENEW
    if found.state is State.DEAD and dead_letter_mark and dispatch == found.dispatch:
        return Next.REPLAY
    if found.state in FINAL or dispatch < found.dispatch:
        return Next.ACKNOWLEDGE
    if dispatch > found.dispatch:
        return Next.WAIT  # from a write not yet visible here, or a record restored from an older backup
    if found.state is State.RUNNING:
        return after_lapse(found, now, stall_limit) if lapsed(found, now) else Next.WAIT
    if found.cancel_request is not None:
        return Next.CANCEL
    if found.deadline_at <= now:
        return Next.EXPIRE
    return Next.WAIT


def after_lapse(found: Job, now: datetime, stall_limit: int) -> Next:
    """What a running job whose lease has lapsed comes to: taken over, or one of the three ends."""
    if found.cancel_request is not None:
        return Next.CANCEL_LAPSED
    if found.deadline_at <= now:
        return Next.EXPIRE_LAPSED
    if found.attempts >= found.max_attempts or found.stalls >= stall_limit:
        return Next.DEAD_LETTER_LAPSED
    return Next.RECLAIM


def lapsed(job: Job, now: datetime) -> bool:
    """Its holder has lost the right to the job, by either's clock."""
    return job.lease_expires_at is not None and job.lease_expires_at <= now - CLOCK_MARGIN


def as_found(found: Job, now: datetime) -> Seen:
    """What a write by somebody who does not hold the job must find: the record exactly as it was read."""
    return Seen(
        now=now,
        dispatch=found.dispatch,
        run=found.run,
        attempts=found.attempts,
        lease_expires_at=found.lease_expires_at,
        outbox=found.outbox,
        published_at=found.published_at,
        reason=found.reason,
        stall_limit=DEFAULT_STALL_LIMIT,
    )


def wait_until(found: Job | None, now: datetime, fallback: timedelta) -> timedelta:
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
