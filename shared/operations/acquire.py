"""Acquire: take the lease, or do what its refusal means. The refused write brings the record it met, so deciding costs
no read; each further write conditions on exactly that record, and a lost race decides again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.domain.job import Job, due_key
from shared.domain.lease import REDELIVERY_MARGIN, Lease, Next, as_found, next_after_refusal, wait_until
from shared.domain.outcome import Alert, Outcome
from shared.domain.states import (
    DEFAULT_STALL_LIMIT,
    DEFER_UNLEASED,
    DEFER_UNLEASED_LATER,
    LEASE,
    RECLAIM,
    RENEW,
    REQUEUE,
    Seen,
    State,
    Transition,
)
from shared.domain.waits import RECEIVE_LIMIT, elsewhere, leaves_its_message, unready
from shared.errors import MoveRefused, StoreUnavailable
from shared.jobs import JobType
from shared.operations.batch import TRIES_ELSEWHERE, Place, come_back
from shared.operations.endings import ending, renew_payload
from shared.operations.history import record_lapsed_run
from shared.ports import Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts

DECISIONS = 4
"""Races lost in a row before the message is left for later."""

NO_ROOM_WAIT = timedelta(seconds=30)
READ_BACK_TRIES, READ_BACK_EVERY = 10, timedelta(milliseconds=500)
ONE_CALL = timedelta(seconds=20)
"""What one call to the table may take with its repeats (lambdas/worker: three of 1 + 5 s), and the answer after it."""


def acquire(message: Message, job_type: JobType, place: Place, ports: WorkerPorts) -> Job | Outcome:
    """The leased job, or how the delivery ended without one. Raises StoreUnavailable, RingRefused."""
    holder = ports.token()

    def lease(move: Transition, seen_at: Callable[[datetime], Seen]) -> Job:
        ends_at = place.hidden_since() + job_type.lease
        now = ports.clock.now()  # after that, which may have asked SQS: what holds then must hold
        seen = seen_at(now)
        changes = {"lease_expires_at": ends_at, "started_at": now, "code_version": ports.code_version}
        try:
            return ports.store.apply(message.job_id, move, seen, holder=holder, **changes)
        except StoreUnavailable:
            # The write may have landed without its answer. Left alone, the lease would lapse and count as a stall.
            landed = _read_back(message.job_id, ports)
            if landed is None or landed.holder != holder:
                raise
            return landed

    def in_time(job: Job) -> Job:
        """A lease that was over before its answer came (the SDK's repeats take up to 18 s, a frozen process longer) is
        renewed before anything begins under it: another worker may have the job by now. Raises MoveRefused.
        """
        own, now = Lease(job.job_id, job.run, holder), ports.clock.now()
        if own.lasts(job, now):
            return job
        renewed = ports.store.apply(job.job_id, RENEW, own.seen(), lease_expires_at=now + job_type.lease)
        ports.mailbox.hide([message], [job_type.lease + REDELIVERY_MARGIN])
        return in_time(renewed)

    if message.suspect and (wait := place.alone()) is not None:
        return _no_room(message, wait, ports)
    try:
        return in_time(lease(LEASE, lambda now: Seen(now=now, dispatch=message.dispatch)))
    except MoveRefused as e:
        found = e.found

    def take(found: Job) -> Job | timedelta:
        if found.holder == holder:
            return in_time(found)
        if (wait := place.alone()) is not None:
            return wait
        job = lease(RECLAIM, lambda now: as_found(found, now))
        record_lapsed_run(found, State.RUNNING, ports)
        return in_time(job)

    return _decide(message, found, holder, ports, take)


def _read_back(job_id: str, ports: WorkerPorts) -> Job | None:
    """The record, asked for until the table answers, for some seconds. Raises StoreUnavailable."""
    for tries_left in reversed(range(READ_BACK_TRIES)):
        try:
            return ports.store.get(job_id)
        except StoreUnavailable:
            if not tries_left or ports.time_left() < ONE_CALL:
                raise
            ports.pause(READ_BACK_EVERY)
    raise AssertionError("no try at all")


def defer_unleased(message: Message, why: str, wait: timedelta, ports: WorkerPorts) -> Outcome:
    """Leave the job for another worker, without spending an attempt. Raises StoreUnavailable, RingRefused."""
    now = ports.clock.now()
    seen = Seen(now=now, dispatch=message.dispatch)
    changes: dict[str, Any] = {"next_attempt_at": now + wait, "reason": why}
    later = leaves_its_message(wait, message.receives, ports.queue.fifo)
    if later:
        changes |= {"due_key": due_key(message.job_id), "due_at": now + wait}
    try:
        ports.store.apply(message.job_id, DEFER_UNLEASED_LATER if later else DEFER_UNLEASED, seen, **changes)
    except MoveRefused as e:
        return without_lease(message, e.found, ports)
    if not later:
        come_back([message], [wait], ports)
    ports.log.event("deferred", level="warning", job=message.job_id, type=message.type, state=State.RETRYING, why=why)
    return Outcome.DEFERRED_IN_DUE if later else Outcome.DEFERRED


Take = Callable[[Job], Job | timedelta | Outcome]
"""The job taken over, or a late lease of our own renewed; how long its message shall wait for room; or how the delivery
ends instead.
"""


def _decide(message: Message, found: Job | None, holder: str, ports: WorkerPorts, take: Take | None) -> Job | Outcome:
    for _ in range(DECISIONS):
        now = ports.clock.now()
        following = next_after_refusal(
            found,
            dispatch=message.dispatch,
            dead_letter_mark=message.dead_letter_mark,
            holder=holder,
            now=now,
            stall_limit=DEFAULT_STALL_LIMIT,
        )
        try:
            return _follow(following, message, found, now, ports, take)
        except MoveRefused as e:
            found = e.found
    return _wait(message, found, ports)


def _follow(
    following: Next, message: Message, found: Job | None, now: datetime, ports: WorkerPorts, take: Take | None
) -> Job | Outcome:
    if found is None:
        ports.mailbox.set_aside(message, "no job has this id")
        ports.log.event("orphaned", level="error", job=message.job_id, type=message.type, state="gone")
        return Outcome.ORPHANED
    seen = as_found(found, now)
    match following:
        case Next.WON:
            return found
        case Next.RECLAIM | Next.RENEW if take is not None:
            taken = take(found)
            return _suspect_waits(message, found, seen, taken, ports) if isinstance(taken, timedelta) else taken
        case Next.ACKNOWLEDGE:
            ports.log.event("dropped", job=found.job_id, type=found.type, state=found.state, dispatch=message.dispatch)
            return Outcome.STALE
        case Next.WAIT | Next.RECLAIM | Next.RENEW | Next.ORPHAN:
            return _wait(message, found, ports)
    move, changes, outcome = ending(following, found, now)
    if outcome is Outcome.EXPIRED:
        ports.meter.alert(Alert.EXPIRED, queue=found.queue, type=found.type, job=found.job_id)
    if following is Next.REPLAY:
        renew_payload(found, changes["deadline_at"], ports.store)  # one that is gone: its run says so
    after = ports.store.apply(found.job_id, move, seen, **changes)
    if found.state is State.RUNNING:
        record_lapsed_run(found, after.state, ports)
    ports.log.event(outcome.value, job=found.job_id, type=found.type, attempt=found.attempts, state=after.state)
    return outcome


def _suspect_waits(message: Message, found: Job, seen: Seen, wait: timedelta, ports: WorkerPorts) -> Outcome:
    """There was no room for it alone: again soon, and after some tries under a new doorbell, which says that it is a
    suspect, so that its batch makes room first.
    """
    if ports.queue.fifo or message.receives <= TRIES_ELSEWHERE:
        come_back([message], [max(wait, elsewhere(message.receives))], ports)
        return Outcome.RELEASED
    return requeue(found, seen, ports)


def requeue(found: Job, seen: Seen, ports: WorkerPorts) -> Outcome:
    """A fresh doorbell for a job whose worker vanished. Raises MoveRefused, StoreUnavailable."""
    after = ports.store.apply(found.job_id, REQUEUE, seen, queued_at=ports.clock.now())
    record_lapsed_run(found, after.state, ports)
    return Outcome.STALE


def _no_room(message: Message, wait: timedelta, ports: WorkerPorts) -> Outcome:
    """As above, for a suspect that was requeued: nobody holds it, so a fresh doorbell is a wait in `due`."""
    if ports.queue.fifo or message.receives <= RECEIVE_LIMIT:
        come_back([message], [max(wait, elsewhere(message.receives))], ports)
        return Outcome.RELEASED
    return defer_unleased(message, "its worker vanished; waits to run alone", NO_ROOM_WAIT, ports)


def _wait(message: Message, found: Job | None, ports: WorkerPorts) -> Outcome:
    wait = wait_until(found, ports.clock.now(), unready(message.receives))
    come_back([message], [wait], ports)
    state = "gone" if found is None else found.state
    ports.log.event(
        "waiting", job=message.job_id, type=message.type, state=state, wait_ms=wait // timedelta(milliseconds=1)
    )
    return Outcome.WAITING


def without_lease(message: Message, found: Job | None, ports: WorkerPorts, take: Take | None = None) -> Outcome:
    """What the record found means for a message whose job this worker may not start."""
    return _settled(_decide(message, found, "", ports, take))


def _settled(ended: Job | Outcome) -> Outcome:
    """Without a `take` and a holder no decision leases."""
    return ended if isinstance(ended, Outcome) else Outcome.WAITING
