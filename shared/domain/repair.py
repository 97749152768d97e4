"""What the sweeper does about a record or a DLQ message that breaks an invariant: pure decisions (DESIGN §10), acted on
by operations/sweep.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from shared.domain.job import Job
from shared.domain.lease import Next, after_lapse, lapsed
from shared.domain.states import FINAL, OUTBOX_OPEN, State
from shared.domain.waits import OUTAGE

PATIENCE = timedelta(seconds=60)
"""What the relay, and a message's own redelivery, get before the sweeper steps in."""

FIFO_PATIENCE = timedelta(minutes=15)
"""On a FIFO lane a new doorbell stands behind its key's others, and all waits of a job are on its message: while a busy
lane may still come to that, it keeps its place.
"""

LONGEST_PATIENCE = timedelta(hours=1)
"""Between two rings, however long the relay has been gone: when it is back, nobody waits for a month's back-off."""

LOST_AFTER = timedelta(minutes=5)
"""A job this long past its time in an empty queue has no message: SQS's counts lag by about a minute."""

OVERDUE = timedelta(minutes=2)
"""Two ticks of the promoter."""


class Repair(StrEnum):
    """What is done about it."""

    RING_AGAIN = "ring-again"
    REDISPATCH = "redispatch"
    REQUEUE = "requeue"
    DEAD_LETTER = "dead-letter"
    EXPIRE = "expire"
    CANCEL = "cancel"
    PROMOTE = "promote"
    PARK = "park"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant by its name, and what mends it."""

    invariant: str
    repair: Repair


class Fate(StrEnum):
    """Of a message found in a DLQ."""

    PARK = "park"  # SQS gave up on the current doorbell of a job that nobody holds: stop the job for a human
    RING = "ring"  # the same, but the table may have been away: what nobody could read is not the job's doing
    DROP = "drop"  # its job went on without it, or is final otherwise than dead
    KEEP = "keep"  # it tells the truth, or nobody knows better


ENDINGS = {
    Next.RECLAIM: Repair.REQUEUE,
    Next.DEAD_LETTER_LAPSED: Repair.DEAD_LETTER,
    Next.EXPIRE_LAPSED: Repair.EXPIRE,
    Next.CANCEL_LAPSED: Repair.CANCEL,
}


def broken(
    job: Job, now: datetime, *, queue_empty: bool, retention: timedelta, stall_limit: int, fifo: bool = False
) -> Broken | None:
    """The invariant this record breaks, if any.

    queue_empty  whether the job's queue held no message at all, hidden and delayed ones included, before it was read
    retention    how long SQS keeps a message of this queue
    """
    patience = FIFO_PATIENCE if fifo else PATIENCE
    match job.state:
        case State.SCHEDULED | State.RETRYING if job.due_key is not None:
            late = job.due_at is not None and now - job.due_at > OVERDUE
            return Broken("overdue", Repair.PROMOTE) if late else None
        case State.QUEUED | State.DEAD if job.outbox == OUTBOX_OPEN:
            return Broken("unpublished", Repair.RING_AGAIN) if _rung_too_long_ago(job, now) else None
        case State.QUEUED:
            lost = _doorbell_lost(job, now, job.available_at, queue_empty, retention)
            return Broken("lost-doorbell", Repair.RING_AGAIN) if lost else None
        case State.RETRYING if job.next_attempt_at is not None and now - job.next_attempt_at > patience:
            if job.outbox == OUTBOX_OPEN:
                return Broken("unpublished", Repair.REDISPATCH)
            lost = _doorbell_lost(job, now, job.next_attempt_at, queue_empty, retention)
            return Broken("lost-doorbell", Repair.REDISPATCH) if lost else None
        case State.RUNNING if job.lease_expires_at is not None and lapsed(job, now - PATIENCE):
            repair = ENDINGS[after_lapse(job, now, stall_limit)]
            keeps_its_place = repair is Repair.REQUEUE and not lapsed(job, now - patience)
            return None if keeps_its_place else Broken("expired-lease", repair)
    return None


def _rung_too_long_ago(job: Job, now: datetime) -> bool:
    """Each wait is as long as all before it, which backs off without a counter: a slow stream is not a lost record.

    Counted from the ring, not from the job's own time: of an old job's requeue the second ring would come hours later.
    """
    begun = (job.dead_at if job.state is State.DEAD else job.queued_at) or job.created_at
    if job.rung_at is None:
        return now - begun > PATIENCE
    return now - job.rung_at > min(max(PATIENCE, job.rung_at - begun), LONGEST_PATIENCE)


def _doorbell_lost(
    job: Job, now: datetime, may_start_at: datetime | None, queue_empty: bool, retention: timedelta
) -> bool:
    """No live message can exist any more."""
    sent_at = job.published_at or job.created_at
    waited_since = max(sent_at, may_start_at or sent_at)
    return now - sent_at > retention or (queue_empty and now - waited_since > LOST_AFTER)


def fate(found: Job | None, *, dispatch: int, dead_letter_mark: bool, now: datetime) -> Fate:
    """What the record of its job means for a message in a DLQ. `found` None: an orphan, which only a human can judge.

    Delete only what is stale or of a job that ended otherwise (the one rule for messages), or of one that is rung anew;
    park only by the job's current doorbell, or a replayed job would die of the copy of its former death.
    """
    if found is None or dispatch > found.dispatch:
        return Fate.KEEP
    current = dispatch == found.dispatch
    if found.state is State.DEAD and current and dead_letter_mark:
        return Fate.KEEP
    if found.state in FINAL or not current or dead_letter_mark:
        return Fate.DROP
    if found.state is State.RUNNING and (not lapsed(found, now) or found.cancel_request is not None):
        return Fate.KEEP  # one that was asked to stop is cancelled by the sweep of its record
    if found.due_key is not None:
        return Fate.DROP
    return _fate_of_untouched(found, now) if _table_may_have_been_away(found, now) else Fate.PARK


def _table_may_have_been_away(found: Job, now: datetime) -> bool:
    """An absence spends a message's receives slowly (waits.unready). One that was moved sooner was never in the hands
    of a worker that lived; and what a job did not get within its whole age is for a human.
    """
    return now - (found.queued_at or found.created_at) > OUTAGE and now < found.deadline_at


def _fate_of_untouched(found: Job, now: datetime) -> Fate:
    """The sweep of its record takes a lapsed run over; a wait that is not over has need of no doorbell yet."""
    waits = found.next_attempt_at is not None and found.next_attempt_at > now
    return Fate.KEEP if found.state is State.RUNNING or waits else Fate.RING
