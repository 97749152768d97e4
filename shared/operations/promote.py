"""Promote: what is due becomes queued, and the relay rings for it.

Standard lanes look ahead, and the relay hands the rest of the wait to DelaySeconds; a FIFO lane knows no such delay, so
its jobs are promoted once they are due. A crash between two jobs leaves the second for the next tick; two promoters at
once promote each job once, because the second's write is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain import writes
from shared.domain.describe import describe
from shared.domain.job import DUE_SHARDS, Job
from shared.domain.states import State
from shared.errors import MoveRefused, PromotionFailed, StoreUnavailable
from shared.ports import Clock, JobStore, Log
from shared.queues import Queue

THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterPorts:
    """What a promoter needs; `queues` are the lanes this version declares."""

    store: JobStore
    clock: Clock
    log: Log
    queues: Mapping[str, Queue]


def promote(ports: PromoterPorts, look_ahead: timedelta) -> int:
    """One tick over all shards: promote every job due within `look_ahead`; returns how many.

    Raises PromotionFailed when jobs or whole shards could not be read or written, after all the others were promoted:
    an unreadable record must not keep those behind it waiting.
    """
    failed: list[str] = []
    with ThreadPoolExecutor(THREADS) as pool:
        promoted = sum(pool.map(lambda shard: _promote_shard(shard, ports, look_ahead, failed), range(DUE_SHARDS)))
    if failed:
        raise PromotionFailed(f"{promoted} promoted, {len(failed)} not: {'; '.join(failed[:5])}")
    return promoted


def _promote_shard(shard: int, ports: PromoterPorts, look_ahead: timedelta, failed: list[str]) -> int:
    promoted, now = 0, ports.clock.now()
    try:
        for job_id in ports.store.due(shard, now + look_ahead):
            try:
                promoted += promote_job(job_id, now, look_ahead, ports)
            except Exception as e:
                failed.append(f"{job_id}: {describe(e)}")
                ports.log.event("not-promoted", level="error", job=job_id, error=e)
    except StoreUnavailable as e:
        failed.append(f"shard {shard}: {e}")
    return promoted


def promote_job(job_id: str, now: datetime, look_ahead: timedelta, ports: PromoterPorts) -> bool:
    """Promote one job, if its turn has come by `now` + `look_ahead` and nobody else was faster.

    Raises StoreUnavailable.
    """
    job = ports.store.get(job_id)
    if job is None or job.due_at is None or not _its_turn(job, now, look_ahead, ports.queues):
        return False
    write = writes.promote(job, job.due_at, now + look_ahead, ports.clock.now())
    try:
        ports.store.make(job_id, write)
    except MoveRefused:  # cancelled, rescheduled or promoted meanwhile: its new state is right
        return False
    ports.log.event("promoted", job=job_id, type=job.type, attempt=job.attempts, state=State.QUEUED)
    return True


def _its_turn(job: Job, now: datetime, look_ahead: timedelta, queues: Mapping[str, Queue]) -> bool:
    queue = queues.get(job.queue)
    ahead = timedelta() if queue is not None and queue.fifo else look_ahead
    return job.due_at is not None and job.due_at <= now + ahead
