"""Sweep: repair what broke an invariant. Each repair is one conditional write on exactly what was seen, so a job that
moved on meanwhile is left as it is; that lost race is normal and is counted.

What a crash costs: after a repair's write, nothing, since it opens the outbox and the relay rings. Between parking a
job (or ringing it anew) and deleting the message that told of it, a message that the next look finds stale, or a spare
doorbell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.domain.job import Job
from shared.domain.repair import broken, broken_by_message
from shared.domain.states import DEFAULT_STALL_LIMIT
from shared.domain.writes import Write
from shared.errors import MoveRefused, RingRefused
from shared.operations.mend import mend
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
    repair: str
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
    done = not dry_run and found.write is not None and _mended(job, found.write, ports)
    ports.log.event(
        "swept", job=job_id, type=job.type, attempt=job.attempts, state=job.state, invariant=found.invariant,
        repair=found.repair, done=done,
    )  # fmt: skip
    return Repaired(job_id, found.invariant, found.repair, done)


def _mended(job: Job, write: Write, ports: SweeperPorts) -> bool:
    """Whether the move was still what the job needed."""
    try:
        mend(job, write, ports)
    except MoveRefused:
        return False
    return True


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
    job, now = ports.store.get(message.job_id) if message.bell else None, ports.clock.now()
    found = broken_by_message(job, message.bell, now)
    if found is None:
        return None
    done = not dry_run and (job is None or found.write is None or _mended(job, found.write, ports))
    if done:
        ports.dead_letters.delete(queue, [message])
    ports.log.event(
        "swept", job=message.job_id, type=message.type, invariant=found.invariant, repair=found.repair, done=done
    )
    return Repaired(message.job_id, found.invariant, found.repair, done)
