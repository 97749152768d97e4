"""Relay: ring the doorbell of every job whose outbox flag is open, then mark it. The sole sender to any queue.

What a crash costs: before sending, the stream delivers the record again. After sending, before the mark, it does so
too and the doorbell rings twice: a worker runs the first and drops the second. A mark that never lands leaves the flag
open; the job runs all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.domain.job import Job
from shared.domain.states import MARK, OUTBOX_OPEN, Seen, State
from shared.domain.text import BREAKING
from shared.errors import MoveRefused, RingRefused, StoreUnavailable
from shared.ports import Clock, Doorbell, JobStore, Log, Ring, Unsent
from shared.queues import MAX_DELAY, Queue

BATCH = 10
SINGLE_TRIES = 2
MARK_THREADS = 8


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """One stream record: the job it shows, or `why` nobody can read it. `raw` is the record as the stream gave it."""

    raw: Mapping[str, Any]
    job: Job | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPorts:
    """What a relay needs; `queues` are the lanes this version declares."""

    store: JobStore
    doorbell: Doorbell
    clock: Clock
    log: Log
    queues: Mapping[str, Queue]


@dataclass(slots=True)
class _Tally:
    """What one call has come to."""

    sent: list[Job] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    held_keys: set[tuple[str, str | None]] = field(default_factory=set)


Pair = tuple[OutboxRecord, Job]


def relay(records: Sequence[OutboxRecord], ports: RelayPorts) -> None:
    """Ring, mark, and park what cannot be read. Raises RingRefused when doorbells are left unsent, after all the
    others were sent and marked: the stream then delivers the batch again.
    """
    tally = _Tally()
    pairs: dict[tuple[str, int], Pair] = {}
    for record in records:
        if (job := _job_to_ring(record, ports, tally)) is not None:
            pairs[job.job_id, job.dispatch] = (record, job)
    for batch in _batches(pairs.values(), ports.queues):
        _send(batch, ports, tally)
    _mark(tally.sent, ports)
    if tally.left:
        raise RingRefused(f"{len(tally.left)} of {len(records)} doorbells unsent: {'; '.join(tally.left[:5])}")


def _job_to_ring(record: OutboxRecord, ports: RelayPorts, tally: _Tally) -> Job | None:
    job = record.job
    if job is None:
        _park(record, record.why, ports, tally)
    elif job.outbox != OUTBOX_OPEN or job.state not in (State.QUEUED, State.DEAD):
        return None  # the filter lets none through; a filter that was edited away must not ring a running job
    elif job.queue not in ports.queues:
        _park(record, f"{job.job_id}: queue {job.queue!r} is not declared in this version", ports, tally)
        return None
    return job


def _park(record: OutboxRecord, why: str, ports: RelayPorts, tally: _Tally) -> None:
    """Poison goes aside whole, so that its shard goes on."""
    try:
        ports.doorbell.park(record.raw, why)
        ports.log.event("outbox-record-parked", level="error", why=why)
    except RingRefused as e:
        tally.left.append(f"not even parked: {e}")


def _batches(pairs: Iterable[Pair], queues: Mapping[str, Queue]) -> Iterable[list[Pair]]:
    """Up to ten doorbells of one destination each, in stream order. A FIFO batch holds a key only once: were the
    first of two refused and the second taken, their order would be lost.
    """
    filling: dict[tuple[str, State], list[Pair]] = {}
    for pair in pairs:
        job = pair[1]
        batch = filling.setdefault((job.queue, job.state), [])
        repeated = queues[job.queue].fifo and any(_key(job) == _key(other) for _, other in batch)
        if repeated or len(batch) == BATCH:
            yield list(batch)
            batch.clear()
        batch.append(pair)
    yield from (batch for batch in filling.values() if batch)


def _send(batch: Sequence[Pair], ports: RelayPorts, tally: _Tally) -> None:
    """One SendMessageBatch, what it refused once more singly."""
    queue, now = ports.queues[batch[0][1].queue], ports.clock.now()
    free = [(record, job) for record, job in batch if not (queue.fifo and (queue.name, _key(job)) in tally.held_keys)]
    tally.left += [f"{job.job_id}: behind an unsent one of its key" for _, job in batch if (_, job) not in free]
    rings = [_ring(job, queue, now) for _, job in free]
    refused = {_number(one.ring): one for one in ports.doorbell.ring(queue, rings)} if rings else {}
    for _ in range(SINGLE_TRIES):
        for one in [one for one in refused.values() if not one.hopeless]:
            del refused[_number(one.ring)]
            refused |= {_number(again.ring): again for again in ports.doorbell.ring(queue, [one.ring])}
    for record, job in free:
        _settle(record, job, refused.get(_number(job)), ports, tally)


def _number(one: Ring | Job) -> tuple[str, int]:
    """Which doorbell of which job: a batch may hold two of one job."""
    return one.job_id, one.dispatch


def _settle(record: OutboxRecord, job: Job, refused: Unsent | None, ports: RelayPorts, tally: _Tally) -> None:
    if refused is None:
        tally.sent.append(job)
        ports.log.event("relayed", job=job.job_id, type=job.type, state=job.state, dispatch=job.dispatch)
    elif refused.hopeless:
        _park(record, f"{job.job_id}: SQS will never take its doorbell: {refused.why}", ports, tally)
    else:
        tally.held_keys.add((job.queue, _key(job)))
        tally.left.append(f"{job.job_id}: {refused.why}")


def _key(job: Job) -> str:
    """What a FIFO lane keeps in order; a job without a key is ordered with nothing."""
    return job.ordering_key or job.job_id


def _ring(job: Job, queue: Queue, now: datetime) -> Ring:
    dead = job.state is State.DEAD
    wait = job.available_at - now if job.available_at is not None else timedelta()
    return Ring(
        job_id=job.job_id,
        dispatch=job.dispatch,
        type=job.type,
        payload_version=job.payload_version,
        group=_group(job, queue, dead),
        rung_at=job.rung_at,
        delay=timedelta() if dead or queue.fifo else min(max(wait, timedelta()), MAX_DELAY),
        dead_letter=dead,
        suspect=not dead and job.stalls > 0,
        tenant=job.tenant if queue.tenant_share is not None and not dead else None,
        attributes=_context(job) if dead else {},
    )


def _group(job: Job, queue: Queue, dead: bool) -> str | None:
    """Copies in a FIFO DLQ keep no order: ten of one key, looked at and kept, would hide what lies behind them."""
    if queue.fifo:
        return job.job_id if dead else _key(job)
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


def _mark(sent: Sequence[Job], ports: RelayPorts) -> None:
    """Close the flags, side by side: a slow relay delays every job behind it."""

    def mark(job: Job) -> None:
        try:
            ports.store.apply(job.job_id, MARK, Seen(dispatch=job.dispatch), published_at=ports.clock.now())
        except MoveRefused as e:
            ports.log.event("mark-late", job=job.job_id, type=job.type, state=e.found.state if e.found else "gone")
        except Exception as e:  # whatever it is, the others' flags must close; the sweeper rings this one again
            level = "warning" if isinstance(e, StoreUnavailable) else "error"
            ports.log.event("mark-failed", level=level, job=job.job_id, type=job.type, state=job.state, error=e)

    if len(sent) == 1:
        mark(sent[0])
    elif sent:
        with ThreadPoolExecutor(MARK_THREADS) as pool:
            list(pool.map(mark, sent))
