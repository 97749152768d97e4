"""Relay: ring the doorbell of every job whose outbox flag is open, then mark it. The sole sender to any queue.

What a crash costs: before sending, the stream delivers the record again. After sending, before the mark, it does so
too and the doorbell rings twice: a worker runs the first and drops the second. A mark that never lands leaves the flag
open; the job runs all the same.

Each queue and each DLQ has a thread of its own, so a slow or refusing one spends its own time and holds up no other.
Nobody begins what Lambda would cut off: a relay that is cut off marks nothing and is given the same batch again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from shared.domain import writes
from shared.domain.doorbell import Bell, bell_of, fifo_group
from shared.domain.job import Job
from shared.domain.states import OUTBOX_OPEN, State
from shared.domain.text import BREAKING
from shared.errors import MoveRefused, RingRefused, StoreUnavailable
from shared.ports import Clock, Doorbell, JobStore, Log, Ring, Unsent
from shared.queues import MAX_DELAY, Queue

BATCH = 10
SINGLE_TRIES = 2
MARK_THREADS = 8

ONE_CALL = timedelta(seconds=15)
"""What one call to SQS or the table may take with its repeats (lambdas/relay: three of 1 + 3 s, and pauses)."""

TO_MARK = ONE_CALL + timedelta(seconds=3)
TO_SEND = ONE_CALL + TO_MARK
"""What must be left of the invocation to begin with one more mark, or one more call that will want its marks."""


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """One stream record: the job it shows, or `why` nobody can read it. `raw` is the record as the stream gave it."""

    raw: Mapping[str, Any]
    job: Job | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPorts:
    """What a relay needs; `queues` are the lanes this version declares; time_left: of this invocation."""

    store: JobStore
    doorbell: Doorbell
    clock: Clock
    log: Log
    queues: Mapping[str, Queue]
    time_left: Callable[[], timedelta]


@dataclass(slots=True)
class _Tally:
    """What one destination has come to."""

    sent: list[Job] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    held_groups: set[str] = field(default_factory=set)


Pair = tuple[OutboxRecord, Job]
Doorbells = Mapping[tuple[str, int], Pair]
"""Of one destination, in stream order, each job's dispatch once."""


def relay(records: Sequence[OutboxRecord], ports: RelayPorts) -> None:
    """Ring, mark, and park what cannot be read. Raises RingRefused when doorbells are left unsent, after all the
    others were sent and marked: the stream then delivers the batch again.
    """
    lanes, poison = _sorted_out(records, ports.queues)
    with ThreadPoolExecutor(MARK_THREADS) as markers:
        work = [partial(_serve, list(pairs.values()), markers, ports) for pairs in lanes.values()]
        work += [partial(_park_all, poison, ports)] if poison else []
        left = [why for lane in _side_by_side(work) for why in lane]
    if left:
        raise RingRefused(f"{len(left)} of {len(records)} doorbells unsent: {'; '.join(left[:5])}")


def _sorted_out(
    records: Sequence[OutboxRecord], queues: Mapping[str, Queue]
) -> tuple[Mapping[tuple[str, State], Doorbells], list[tuple[OutboxRecord, str]]]:
    """The doorbells to ring, by queue or DLQ; and what no relay can ring, with why."""
    lanes: dict[tuple[str, State], dict[tuple[str, int], Pair]] = {}
    poison: list[tuple[OutboxRecord, str]] = []
    for record in records:
        job = record.job
        if job is None:
            poison.append((record, record.why))
        elif job.outbox != OUTBOX_OPEN or job.state not in (State.QUEUED, State.DEAD):
            continue  # the filter lets none through; a filter that was edited away must not ring a running job
        elif job.queue not in queues:
            poison.append((record, f"{job.job_id}: queue {job.queue!r} is not declared in this version"))
        else:
            lanes.setdefault((job.queue, job.state), {})[_number(job)] = (record, job)
    return lanes, poison


def _side_by_side(work: Sequence[Callable[[], list[str]]]) -> Iterable[list[str]]:
    """A thread for each: were they fewer, as many slow queues would hold up all the rest."""
    if len(work) < 2:
        return [act() for act in work]
    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(lambda act: act(), work))


def _park_all(poison: Sequence[tuple[OutboxRecord, str]], ports: RelayPorts) -> list[str]:
    tally = _Tally()
    for record, why in poison:
        _park(record, why, ports, tally)
    return tally.left


def _park(record: OutboxRecord, why: str, ports: RelayPorts, tally: _Tally) -> None:
    """Poison goes aside whole, so that its shard goes on."""
    if ports.time_left() < TO_SEND:
        tally.left.append(f"not even parked for want of time: {why}")
        return
    try:
        ports.doorbell.park(record.raw, why)
        ports.log.event("outbox-record-parked", level="error", why=why)
    except RingRefused as e:
        tally.left.append(f"not even parked: {e}")


def _serve(pairs: Sequence[Pair], markers: Executor, ports: RelayPorts) -> list[str]:
    """All doorbells of one queue or DLQ; returns what was left, with why."""
    tally, queue = _Tally(), ports.queues[pairs[0][1].queue]
    for batch in _batches(pairs, queue):
        _send(batch, queue, ports, tally)
    _mark(tally.sent, markers, ports)
    return tally.left


def _batches(pairs: Sequence[Pair], queue: Queue) -> Iterable[list[Pair]]:
    """Up to ten doorbells each, in stream order. A FIFO batch holds a group only once: were the first of two refused
    and the second taken, their order would be lost.
    """
    batch: list[Pair] = []
    for pair in pairs:
        repeated = queue.fifo and any(fifo_group(pair[1]) == fifo_group(other) for _, other in batch)
        if repeated or len(batch) == BATCH:
            yield batch
            batch = []
        batch.append(pair)
    yield batch


def _send(batch: Sequence[Pair], queue: Queue, ports: RelayPorts, tally: _Tally) -> None:
    """One SendMessageBatch, what it refused once more singly, as long as there is time. Time does not come back, so of
    a group nothing is sent after what was left for want of it.
    """
    now = ports.clock.now()
    free = [(record, job) for record, job in batch if not (queue.fifo and fifo_group(job) in tally.held_groups)]
    tally.left += [f"{job.job_id}: behind an unsent one of its key" for _, job in batch if (_, job) not in free]
    if ports.time_left() < TO_SEND:
        tally.left += [f"{job.job_id}: its queue has no time left" for _, job in free]
        return
    rings = [_ring(job, queue, now) for _, job in free]
    refused = {_number(one.ring.bell): one for one in ports.doorbell.ring(queue, rings)} if rings else {}
    for _ in range(SINGLE_TRIES):
        for one in [one for one in refused.values() if not one.hopeless]:
            if ports.time_left() < TO_SEND:
                break
            del refused[_number(one.ring.bell)]
            refused |= {_number(again.ring.bell): again for again in ports.doorbell.ring(queue, [one.ring])}
    for record, job in free:
        _settle(record, job, refused.get(_number(job)), ports, tally)


def _number(one: Bell | Job) -> tuple[str, int]:
    """Which doorbell of which job: a batch may hold two of one job."""
    return one.job_id, one.dispatch


def _settle(record: OutboxRecord, job: Job, refused: Unsent | None, ports: RelayPorts, tally: _Tally) -> None:
    if refused is None:
        tally.sent.append(job)
        ports.log.event("relayed", job=job.job_id, type=job.type, state=job.state, dispatch=job.dispatch)
    elif refused.hopeless:
        _park(record, f"{job.job_id}: SQS will never take its doorbell: {refused.why}", ports, tally)
    else:
        tally.held_groups.add(fifo_group(job))
        tally.left.append(f"{job.job_id}: {refused.why}")


def _ring(job: Job, queue: Queue, now: datetime) -> Ring:
    dead = job.state is State.DEAD
    wait = job.available_at - now if job.available_at is not None else timedelta()
    return Ring(
        bell=bell_of(job, shared=queue.tenant_share is not None),
        group=_group(job, queue, dead),
        rung_at=job.rung_at,
        delay=timedelta() if dead or queue.fifo else min(max(wait, timedelta()), MAX_DELAY),
        attributes=_context(job) if dead else {},
    )


def _group(job: Job, queue: Queue, dead: bool) -> str | None:
    """Copies in a FIFO DLQ keep no order: ten of one key, looked at and kept, would hide what lies behind them."""
    if queue.fifo:
        return job.job_id if dead else fifo_group(job)
    return job.tenant


def _context(job: Job) -> dict[str, str]:
    """A dead letter's story for those who look into the DLQ; SQS takes ten attributes at most."""
    said = {
        "type": job.type,
        "tenant": job.tenant,
        "payload_version": job.payload_version,
        "attempts": job.attempts,
        "error_class": job.error_class,
        "error_code": job.error_code,
        "first_error_at": job.first_error_at and job.first_error_at.isoformat(),
        "last_error_at": job.last_error_at and job.last_error_at.isoformat(),
        "worker": job.holder,
        "trace_id": job.trace_id,
    }
    texts = {name: _plain(str(value)) for name, value in said.items() if value is not None}
    return {name: text for name, text in texts.items() if text}  # SQS refuses an empty one, and with it the message


def _plain(text: str) -> str:
    """Without the characters that SQS refuses: those of no name, and the two noncharacters that XML has none of."""
    return re.sub("[\ufffe\uffff]", " ", BREAKING.sub(" ", text)).strip()


def _mark(sent: Sequence[Job], markers: Executor, ports: RelayPorts) -> None:
    """Close the flags, side by side: a slow relay delays every job behind it."""

    def mark(job: Job) -> None:
        try:
            if ports.time_left() < TO_MARK:
                raise StoreUnavailable("no time left to mark; the sweeper rings once more")
            ports.store.make(job.job_id, writes.mark(job.dispatch, ports.clock.now()))
        except MoveRefused as e:
            ports.log.event("mark-late", job=job.job_id, type=job.type, state=e.found.state if e.found else "gone")
        except Exception as e:  # whatever it is, the others' flags must close; the sweeper rings this one again
            level = "warning" if isinstance(e, StoreUnavailable) else "error"
            ports.log.event("mark-failed", level=level, job=job.job_id, type=job.type, state=job.state, error=e)

    if len(sent) == 1:
        mark(sent[0])
    else:
        list(markers.map(mark, sent))
