"""What the sweeper does about a record or a DLQ message that breaks an invariant: pure decisions (DESIGN §10), acted on
by operations/sweep.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from shared.domain import writes
from shared.domain.doorbell import Bell
from shared.domain.found import End, TakeOver, after_lapse
from shared.domain.job import Job
from shared.domain.lease import lapsed
from shared.domain.states import OUTBOX_OPEN, State
from shared.domain.waits import OUTAGE
from shared.domain.writes import Write

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


PARKED_BY_SQS, STALE_DEAD_LETTER = "parked-by-sqs", "stale-dead-letter"


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant by its name, and the write that mends it. None: nothing but the message is at fault, and goes."""

    invariant: str
    write: Write | None

    @property
    def repair(self) -> str:
        """In one word: the move that mends it, or "drop"."""
        return "drop" if self.write is None else self.write.move.verb


def broken(
    job: Job, now: datetime, *, queue_empty: bool, retention: timedelta, stall_limit: int, fifo: bool = False
) -> Broken | None:
    """The invariant this record breaks, if any.

    queue_empty  whether the job's queue held no message at all, hidden and delayed ones included, before it was read
    retention    how long SQS keeps a message of this queue
    """
    patience = FIFO_PATIENCE if fifo else PATIENCE
    match state := job.state:
        case State.COMPLETED | State.CANCELLED | State.EXPIRED:
            return None
        case State.SCHEDULED:
            return _overdue(job, now)
        case State.RETRYING if job.due_key is not None:
            return _overdue(job, now)
        case State.RETRYING:
            return _forgotten_wait(job, now, patience, queue_empty, retention)
        case State.QUEUED | State.DEAD if job.outbox == OUTBOX_OPEN:
            return Broken("unpublished", writes.ring_again(job, now)) if _rung_too_long_ago(job, now) else None
        case State.DEAD:
            return None
        case State.QUEUED:
            lost = _doorbell_lost(job, now, job.available_at, queue_empty, retention)
            return Broken("lost-doorbell", writes.ring_again(job, now)) if lost else None
        case State.RUNNING:
            return _expired_lease(job, now, patience, stall_limit)
    assert_never(state)


def _overdue(job: Job, now: datetime) -> Broken | None:
    if job.due_at is None or now - job.due_at <= OVERDUE:
        return None
    return Broken("overdue", writes.promote(job, job.due_at, now - OVERDUE, now))


def _forgotten_wait(
    job: Job, now: datetime, patience: timedelta, queue_empty: bool, retention: timedelta
) -> Broken | None:
    """A wait that is over, on a message that does not come."""
    if job.next_attempt_at is None or now - job.next_attempt_at <= patience:
        return None
    if job.outbox == OUTBOX_OPEN:
        return Broken("unpublished", writes.redispatch(job, now))
    lost = _doorbell_lost(job, now, job.next_attempt_at, queue_empty, retention)
    return Broken("lost-doorbell", writes.redispatch(job, now)) if lost else None


def _expired_lease(job: Job, now: datetime, patience: timedelta, stall_limit: int) -> Broken | None:
    if not lapsed(job, now - PATIENCE):
        return None
    match after_lapse(job, now, stall_limit):
        case End(write):
            return Broken("expired-lease", write)
        case TakeOver():
            keeps_its_place = not lapsed(job, now - patience)
            return None if keeps_its_place else Broken("expired-lease", writes.requeue(job, now))


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


def broken_by_message(found: Job | None, bell: Bell | None, now: datetime) -> Broken | None:
    """What a message in a DLQ breaks, by the record of its job. None: it tells the truth, or nobody knows better (an
    orphan, which only a human can judge).

    Delete only what is stale or of a job that ended otherwise (the one rule for messages), or of one that is rung anew;
    park only by the job's current doorbell, or a replayed job would die of the copy of its former death.
    """
    if found is None or bell is None or bell.dispatch > found.dispatch:
        return None
    stale, current = Broken(STALE_DEAD_LETTER, None), bell.dispatch == found.dispatch
    match state := found.state:
        case State.COMPLETED | State.CANCELLED | State.EXPIRED:
            return stale
        case State.DEAD:
            return None if current and bell.dead_letter else stale
        case State.SCHEDULED | State.QUEUED | State.RUNNING | State.RETRYING:
            return _parked_by_sqs(found, now) if current and not bell.dead_letter else stale
    assert_never(state)


def _parked_by_sqs(found: Job, now: datetime) -> Broken | None:
    """SQS gave up on the current doorbell of a job that has not ended: stop the job for a human. But where the table
    may have been away, what nobody could read is not the job's doing, and it is rung anew.
    """
    if found.state is State.RUNNING and (not lapsed(found, now) or found.cancel_request is not None):
        return None  # one that was asked to stop is cancelled by the sweep of its record
    if found.due_key is not None:
        return Broken(STALE_DEAD_LETTER, None)
    if not _table_may_have_been_away(found, now):
        return Broken(PARKED_BY_SQS, writes.park(found, now))
    # The sweep of its record takes a lapsed run over; a wait that is not over needs no doorbell yet.
    waits = found.next_attempt_at is not None and found.next_attempt_at > now
    if found.state is State.RUNNING or waits:
        return None
    again = writes.ring_again if found.state is State.QUEUED else writes.redispatch
    return Broken(PARKED_BY_SQS, again(found, now))


def _table_may_have_been_away(found: Job, now: datetime) -> bool:
    """An absence spends a message's receives slowly (waits.unready). One that was moved sooner was never in the hands
    of a worker that lived; and what a job did not get within its whole age is for a human.
    """
    return now - (found.queued_at or found.created_at) > OUTAGE and now < found.deadline_at
