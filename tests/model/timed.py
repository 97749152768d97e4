"""What only shows with a clock: small runs without chance, each with the real rule and with the rule it replaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.domain.job import Job
from shared.domain.lease import REDELIVERY_MARGIN, lapsed
from shared.domain.moves import after, allowed
from shared.domain.repair import PATIENCE, broken
from shared.domain.states import CLOCK_MARGIN, DEFAULT_STALL_LIMIT, RING_AGAIN, Seen, State, Transition
from shared.domain.waits import OUTAGE, RECEIVE_LIMIT, hidden, leaves_its_message, shortest_defer, unready
from shared.queues import MAX_RECEIVES, MESSAGE_RETENTION, QUEUES, Queue
from tests.builders import NOW, a_job, a_running_job

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
LEASE = timedelta(seconds=30)
RING_ANEW = replace(RING_AGAIN, adds=(("dispatch", 1),))
"""The repair as it was first designed: a new doorbell, which makes the one in the slow stream stale."""


@dataclass(frozen=True, slots=True)
class Told:
    """How a run went. well: as promised."""

    well: bool
    text: str


def slow_stream(lag: timedelta, move: Transition = RING_AGAIN, backs_off: bool = True) -> Told:
    """Stream records reach the relay `lag` late, the sweeper looks each minute."""
    job = a_job(created_at=NOW, available_at=NOW)
    stream, sent = [(NOW, job.dispatch)], 0
    for n in range(1, 30 * 60):
        now = NOW + n * SECOND
        while stream and stream[0][0] + lag <= now:
            sent += 1
            if stream.pop(0)[1] == job.dispatch:
                return Told(True, f"starts after {n} s, {sent} message(s) sent")
        if n % 60 == 0 and (rung := _swept(job, move, now)) is not None:
            job = rung if backs_off else replace(rung, rung_at=None)
            stream.append((now, job.dispatch))
    return Told(False, f"never starts in 30 min: dispatch {job.dispatch}, {sent} messages sent, all stale")


def _swept(job: Job, move: Transition, now: datetime) -> Job | None:
    found = broken(job, now, queue_empty=False, retention=MESSAGE_RETENTION, stall_limit=DEFAULT_STALL_LIMIT)
    seen = Seen(dispatch=job.dispatch, outbox=job.outbox, published_at=job.published_at)
    if found is None or found.repair != "ring-again" or not allowed(job, move, seen):
        return None
    return after(job, move, {"rung_at": now})


def rung_twice(dated: bool = True) -> Told:
    """A job of an hour ago is requeued, and the stream loses its ring; the sweeper looks each second. dated: the ring's
    own time is known.
    """
    queued_at = NOW if dated else None
    job = a_job(created_at=NOW - 60 * MINUTE, available_at=NOW - 60 * MINUTE, queued_at=queued_at)
    rings = []
    for n in range(2 * 60 * 60):
        if (rung := _swept(job, RING_AGAIN, NOW + n * SECOND)) is not None:
            job = rung
            rings.append(n)
    first, second = rings[:2]
    return Told(first > PATIENCE / SECOND and second - first < 5 * 60, f"rung again after {first} s and {second} s")


def backlog(wait: timedelta, jobs: int = 60, overdue: timedelta | None = None) -> Told:
    """Jobs in a queue that takes `wait` to drain, the sweeper looks each minute. overdue: rings anew what waits longer
    (the first design); None: what shared.domain.repair says.
    """
    waiting = [a_job(created_at=NOW, available_at=NOW, outbox=None, published_at=NOW) for _ in range(jobs)]
    queue = [(n, 1) for n in range(jobs)]
    since, done, receives, now = [NOW] * jobs, set[int](), 0, NOW
    while queue and len(done) < jobs and receives < 4 * jobs:
        now += wait / jobs  # a stale receive costs as much as a run here
        receives += 1
        n, dispatch = queue.pop(0)
        if dispatch == waiting[n].dispatch:
            done.add(n)
        for n in set(range(jobs)) - done:
            rung = _swept(waiting[n], RING_AGAIN, now)
            if overdue is not None and now - since[n] > overdue:
                rung, since[n] = replace(waiting[n], dispatch=waiting[n].dispatch + 1), now
            if rung is not None:
                waiting[n] = rung
                queue.append((n, rung.dispatch))
    return Told(len(done) == jobs and receives == jobs, f"{len(done)} of {jobs} done, {receives} receives")


def renewed(duration: timedelta, extends: bool = True) -> Told:
    """A healthy handler renews each third of its lease; its message was hidden for one lease and the margin."""
    visible_at, receives = NOW + LEASE + REDELIVERY_MARGIN, 1
    for n in range(int(duration / SECOND)):
        now = NOW + n * SECOND
        if extends and now >= visible_at - REDELIVERY_MARGIN - LEASE * 2 / 3:
            visible_at = now + LEASE + REDELIVERY_MARGIN
        if now >= visible_at:
            receives += 1
            visible_at = now + LEASE + REDELIVERY_MARGIN
    return Told(receives == 1, f"finishes after {receives} receive(s)")


def denied(times: int, wait: timedelta, limit: int = RECEIVE_LIMIT, most: int = MAX_RECEIVES) -> Told:
    """A job deferred so many times in a row. limit: receives after which a wait makes a fresh message."""
    receives = 0
    for n in range(times + 1):
        receives += 1
        if receives > most:
            return Told(False, f"moved to the DLQ after {n} waits, with no attempt spent")
        if leaves_its_message(wait, receives + (RECEIVE_LIMIT - limit), fifo=False):
            receives = 0
    return Told(True, f"runs after {times} waits")


def table_away(lane: Queue, unanswered: Callable[[int], timedelta] = unready) -> Told:
    """Three days, from a message's first receive on. unanswered: how long it is hidden after so many receives."""
    receives, away = 0, timedelta()
    while away < OUTAGE:
        receives += 1
        if receives > lane.max_receives:
            return Told(False, f"moved to the DLQ after {away / HOUR:.1f} h")
        away += unanswered(receives)
    return Told(True, f"{receives} receives")


def not_now(lane: Queue, floor: Callable[[int, int], timedelta] = shortest_defer, last_hour: bool = True) -> Told:
    """A FIFO job that says "not now", for no time at all, as long as SQS keeps its message. floor: of its waits;
    last_hour: with few receives left each hide lasts an hour.
    """
    receives, at = 0, timedelta()
    while at < lane.message_retention:
        receives += 1
        if receives > lane.max_receives:
            return Told(False, f"moved to the DLQ after {at / HOUR:.1f} h")
        wait = floor(receives, receives)
        at += hidden(wait, receives, lane.max_receives, lane.message_retention) if last_hour else wait
    return Told(True, f"{receives} receives")


def cancelled(after: timedelta, wait: timedelta, bounded: bool = True) -> Told:
    """The head of a FIFO key is cancelled while it waits. bounded: its hides are."""
    at, receives, lane = timedelta(), 1, QUEUES["webhooks.partner-a"]
    while at <= after:
        left = wait - at
        at += hidden(left, receives, lane.max_receives, lane.message_retention) if bounded else left
        receives += 1
    return Told(at - after <= 15 * MINUTE, f"its key is free {(at - after) / MINUTE:.0f} min later")


def behind_a_wait(wait: timedelta, runs: int = 1) -> Told:
    """A FIFO job that was received with its waiting head, all along, says "not now" for the first time."""
    receives = math.ceil(wait / (15 * MINUTE)) + 1
    floor = shortest_defer(receives, runs)
    return Told(floor == timedelta(), f"waits {floor / SECOND:.0f} s longer than it asked for")


def batch(queue: Queue, messages: int | None = None) -> Told:
    """A full batch, each job as long as its lease, all hidden when the batch arrives."""
    late = []
    for n in range(queue.batch_size if messages is None else messages):
        starts_at = LEASE * (n // queue.parallelism)
        if starts_at + LEASE > LEASE + REDELIVERY_MARGIN and not queue.fifo:
            late.append(n)
    return Told(not late, f"{len(late)} messages come back under a live lease")


def skewed(ahead: timedelta, margin: timedelta = CLOCK_MARGIN) -> Told:
    """The clock of who takes over a lease runs ahead of the holder's."""
    lease_ends = NOW + LEASE
    job = a_running_job(lease_expires_at=lease_ends)
    for n in range(60):
        holders = NOW + n * SECOND
        taken = lapsed(job, holders + ahead + (CLOCK_MARGIN - margin))
        if taken:
            early = (lease_ends - holders) / SECOND
            return Told(
                early <= 0, f"taken over {early:.0f} s before the holder thinks it ends" if early > 0 else "no overlap"
            )
    return Told(False, "never taken over")


def redelivered(margin: timedelta = REDELIVERY_MARGIN) -> Told:
    """A worker dies at once; its message comes back one margin after the lease ends."""
    job = a_running_job(state=State.RUNNING, lease_expires_at=NOW + LEASE)
    back = NOW + LEASE + margin
    return Told(
        lapsed(job, back), "taken over by the first redelivery" if lapsed(job, back) else "one redelivery wasted"
    )


STANDARD = Queue(
    name="model", deadline=MINUTE, parallelism=4, max_concurrency=2, memory_mb=512, oldest_age_alarm=2 * MINUTE
)

RUNS: Mapping[str, tuple[Callable[[], Told], Callable[[], Told]]] = {
    "the stream lags 150 s": (
        lambda: slow_stream(150 * SECOND),
        lambda: slow_stream(150 * SECOND, RING_ANEW, backs_off=False),
    ),
    "the stream lags 10 min": (
        lambda: slow_stream(10 * MINUTE),
        lambda: slow_stream(10 * MINUTE, RING_ANEW, backs_off=False),
    ),
    "an old job is requeued, its ring lost": (rung_twice, lambda: rung_twice(dated=False)),
    "a backlog of one hour": (
        lambda: backlog(60 * MINUTE),
        lambda: backlog(60 * MINUTE, overdue=15 * MINUTE),
    ),
    "a job of ten minutes on a lease of 30 s": (
        lambda: renewed(10 * MINUTE),
        lambda: renewed(10 * MINUTE, extends=False),
    ),
    "denied 150 times for 2 s": (
        lambda: denied(150, 2 * SECOND),
        lambda: denied(150, 2 * SECOND, limit=MAX_RECEIVES + 1, most=100),
    ),
    "denied 150 times for no time": (
        lambda: denied(150, timedelta(), most=100),
        lambda: denied(150, timedelta(), limit=MAX_RECEIVES + 1, most=100),
    ),
    "three days without the table": (
        lambda: table_away(QUEUES["emails.high"]),
        lambda: table_away(QUEUES["emails.high"], lambda receives: LEASE + REDELIVERY_MARGIN),
    ),
    "three days without the table, on a FIFO lane": (
        lambda: table_away(QUEUES["webhooks.partner-a"]),
        lambda: table_away(QUEUES["webhooks.partner-a"], lambda receives: LEASE + REDELIVERY_MARGIN),
    ),
    "not now, for fourteen days, on a FIFO lane": (
        lambda: not_now(QUEUES["webhooks.partner-a"]),
        lambda: not_now(QUEUES["webhooks.partner-a"], lambda *_: timedelta(), last_hour=False),
    ),
    "a FIFO head is cancelled in a wait of six hours": (
        lambda: cancelled(MINUTE, 6 * HOUR),
        lambda: cancelled(MINUTE, 6 * HOUR, bounded=False),
    ),
    "a day behind a waiting head": (
        lambda: behind_a_wait(24 * HOUR),
        lambda: behind_a_wait(24 * HOUR, runs=1000),
    ),
    "a full batch": (lambda: batch(STANDARD), lambda: batch(STANDARD, messages=10)),
    "a clock 3 s ahead": (
        lambda: skewed(CLOCK_MARGIN),
        lambda: skewed(CLOCK_MARGIN, margin=timedelta()),
    ),
    "a message comes back after a crash": (redelivered, lambda: redelivered(CLOCK_MARGIN - SECOND)),
}
"""By what happens: as it is, and as it would be without the rule."""
