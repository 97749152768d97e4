"""Sweep: repair what broke an invariant. Each repair is one conditional write on exactly what was seen, so a job that
moved on meanwhile is left as it is; that lost race is normal and is counted.

What a crash costs: after a repair's write, nothing, since it opens the outbox and the relay rings. Between parking a
job (or ringing it anew) and deleting the message that told of it, a message that the next look finds stale, or a spare
doorbell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared.domain.job import Job
from shared.domain.lease import Next, as_found
from shared.domain.outcome import Alert
from shared.domain.repair import ENDINGS, OVERDUE, Broken, Fate, Repair, broken, fate
from shared.domain.retry import Failure, FailureClass
from shared.domain.states import (
    DEFAULT_STALL_LIMIT,
    PARK,
    PARK_LAPSED,
    REDISPATCH,
    REQUEUE,
    RING_AGAIN,
    State,
    Transition,
)
from shared.domain.told import with_what_stood_in_its_way
from shared.errors import MoveRefused, RingRefused
from shared.operations.endings import ending
from shared.operations.history import dead_changes, record_lapsed_run
from shared.operations.promote import PromoterPorts, promote_job
from shared.ports import Clock, DeadLetters, JobStore, Log, Message, Meter
from shared.queues import DEAD_LETTER_RETENTION, Queue

LOOKS = 100
"""Receives per look into one DLQ: at most a thousand messages. What was looked at is hidden for five minutes, so looks
a minute apart reach five thousand before they meet the first again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweeperPorts:
    """What a sweeper needs; `queues` are the lanes this version declares."""

    store: JobStore
    dead_letters: DeadLetters
    clock: Clock
    log: Log
    meter: Meter
    queues: Mapping[str, Queue]


@dataclass(frozen=True, slots=True)
class Repaired:
    """One broken invariant that was found. `done` False: the job moved on before the write, or it was a dry run."""

    job_id: str
    invariant: str
    repair: Repair
    done: bool


def sweep_job(job_id: str, ports: SweeperPorts, *, queue_empty: bool, dry_run: bool = False) -> Repaired | None:
    """Look at one record and make the one repair it asks for; None when it is as it should be, or gone.

    queue_empty  whether its queue held no message at all, hidden and delayed ones included, when the sweep began
    Raises StoreUnavailable, and whatever a record that nobody can read raises: its caller guards each job.
    """
    job = ports.store.get(job_id)
    if job is None:
        return None
    now = ports.clock.now()
    queue = ports.queues.get(job.queue)
    retention = DEAD_LETTER_RETENTION if queue is None else queue.message_retention
    found = broken(
        job,
        now,
        queue_empty=queue_empty,
        retention=retention,
        fifo=queue is not None and queue.fifo,
        stall_limit=DEFAULT_STALL_LIMIT,
    )
    if found is None:
        return None
    done = not dry_run and _repair(job, found, now, ports)
    ports.log.event(
        "swept", job=job_id, type=job.type, attempt=job.attempts, state=job.state, invariant=found.invariant,
        repair=found.repair, done=done,
    )  # fmt: skip
    return Repaired(job_id, found.invariant, found.repair, done)


def _repair(job: Job, found: Broken, now: datetime, ports: SweeperPorts) -> bool:
    if found.repair is Repair.PROMOTE:
        promoter = PromoterPorts(store=ports.store, clock=ports.clock, log=ports.log, queues=ports.queues)
        return promote_job(job.job_id, now - OVERDUE, timedelta(), promoter)
    move, changes = _move(job, found.repair, now)
    if found.repair is Repair.EXPIRE:
        ports.meter.alert(Alert.EXPIRED, queue=job.queue, type=job.type, job=job.job_id)
    return _made(job, move, changes, now, ports)


def _made(job: Job, move: Transition, changes: dict[str, Any], now: datetime, ports: SweeperPorts) -> bool:
    """Whether the move was still what the job needed."""
    try:
        after = ports.store.apply(job.job_id, move, as_found(job, now), **changes)
    except MoveRefused:
        return False
    if job.state is State.RUNNING:
        record_lapsed_run(job, after.state, ports)
    return True


def _move(job: Job, repair: Repair, now: datetime) -> tuple[Transition, dict[str, Any]]:
    match repair:
        case Repair.RING_AGAIN:
            return RING_AGAIN, {"rung_at": now}
        case Repair.REDISPATCH:
            return REDISPATCH, {"queued_at": now}
        case Repair.REQUEUE:
            return REQUEUE, {"queued_at": now}
        case Repair.DEAD_LETTER | Repair.EXPIRE | Repair.CANCEL:
            move, changes, _ = ending(_NEXT[repair], job, now)
            return move, changes
    raise AssertionError(f"{repair} is no single move")


_NEXT: Mapping[Repair, Next] = {repair: following for following, repair in ENDINGS.items()}


def sweep_dead_letters(queue: Queue, ports: SweeperPorts, *, dry_run: bool = False) -> list[Repaired]:
    """Look through one DLQ: park what SQS moved there, or ring it anew where the table may have been away; drop what is
    stale, leave what tells the truth.

    Raises RingRefused when SQS does not answer. A job that cannot be read now is left for the next look.
    """
    repaired: list[Repaired] = []
    for _ in range(LOOKS):
        if not (messages := ports.dead_letters.receive(queue)):
            break
        for message in messages:
            try:
                one = _sweep_message(queue, message, ports, dry_run)
            except RingRefused:
                raise
            except Exception as e:  # a record nobody can read must not keep those behind it from being looked at
                ports.log.event("not-swept", level="error", job=message.job_id, type=message.type, error=e)
                continue
            repaired += [one] if one is not None else []
    return repaired


def _sweep_message(queue: Queue, message: Message, ports: SweeperPorts, dry_run: bool) -> Repaired | None:
    found, now = ports.store.get(message.job_id) if message.job_id else None, ports.clock.now()
    match fate(found, dispatch=message.dispatch, dead_letter_mark=message.dead_letter_mark, now=now):
        case Fate.PARK if found is not None:
            name, repair, done = "parked-by-sqs", Repair.PARK, not dry_run and _park(found, now, ports)
        case Fate.RING if found is not None:
            name, repair = "parked-by-sqs", _ring_of(found)
            done = not dry_run and _made(found, *_move(found, repair, now), now, ports)
        case Fate.DROP:
            name, repair, done = "stale-dead-letter", Repair.DROP, not dry_run
        case _:
            return None
    if done:
        ports.dead_letters.delete(queue, [message])
    ports.log.event("swept", job=message.job_id, type=message.type, invariant=name, repair=repair, done=done)
    return Repaired(message.job_id, name, repair, done)


def _ring_of(found: Job) -> Repair:
    return Repair.RING_AGAIN if found.state is State.QUEUED else Repair.REDISPATCH


def _park(found: Job, now: datetime, ports: SweeperPorts) -> bool:
    """Attempts as seen: a worker that got hold of a second copy meanwhile has the job, and it lives."""
    why = FailureClass.NEVER_RAN if found.attempts == 0 else FailureClass.STALLED
    said = with_what_stood_in_its_way(f"SQS gave up on its message after {found.attempts} attempts", found)
    move = PARK_LAPSED if found.state is State.RUNNING else PARK
    failure = Failure(why, "parked-by-sqs", said, told=True)
    return _made(found, move, dead_changes(found, failure, now), now, ports)
