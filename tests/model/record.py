"""A record whose time is abstract: a real Job, frozen at NOW.

A lease that has lapsed ended long ago and a live one ends in the far future; so with deadlines, waits and due times.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.domain.job import Job
from shared.domain.states import OUTBOX_OPEN, State
from tests.builders import NOW
from tests.model.shape import fault_in

PAST, AHEAD = NOW - timedelta(days=10), NOW + timedelta(days=10)
"""Longer ago, and further ahead, than any patience of a worker or a sweeper."""

EFFECT_NAME = "charge"


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One abstract record; equal ones are the same object. `fault`: what is wrong with its shape, if anything."""

    job: Job
    state: State
    dispatch: int
    run: int
    attempts: int
    stalls: int
    holder: str | None
    lapsed: bool
    late: bool
    waiting: bool
    cancelling: bool
    in_due: bool
    marked: bool
    rings: bool
    effect: tuple[str, int] | None
    reasoned: bool
    fault: str | None

    @property
    def lease(self) -> str:
        """How its lease looks to who compares it later."""
        return "" if self.job.lease_expires_at is None else "lapsed" if self.lapsed else "live"


def looks(job: Job) -> tuple[object, ...]:
    """All of a job that any guard, worker, sweeper or index looks at."""
    effect = job.effects.get(EFFECT_NAME)
    return (
        job.state,
        job.dispatch,
        job.outbox,
        job.published_at,
        job.run,
        job.attempts,
        job.stalls,
        job.holder,
        job.lease_expires_at,
        job.deadline_at,
        job.cancel_request is None,
        job.next_attempt_at,
        job.due_key,
        job.due_at,
        job.queue,
        job.rerouted_at,
        job.expires_at,
        job.open_key,
        job.dead_key,
        None if job.checkpoint is None else job.checkpoint["page"],
        None if effect is None else (effect.status, effect.run),
        job.reason,
    )


def record_of(job: Job) -> Record:
    """The abstract record of a job."""
    effect = job.effects.get(EFFECT_NAME)
    return Record(
        job=job,
        state=job.state,
        dispatch=job.dispatch,
        run=job.run,
        attempts=job.attempts,
        stalls=job.stalls,
        holder=job.holder,
        lapsed=job.lease_expires_at == PAST,
        late=job.deadline_at == PAST,
        waiting=AHEAD in (job.due_at, job.next_attempt_at),
        cancelling=job.cancel_request is not None,
        in_due=job.due_key is not None,
        marked=job.published_at is not None,
        rings=job.outbox == OUTBOX_OPEN and job.state in (State.QUEUED, State.DEAD),
        effect=None if effect is None else (effect.status, effect.run),
        reasoned=job.reason is not None,
        fault=fault_in(job),
    )
