"""Leases: temporary ownership of a job, and what a write must find in the record to be allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.domain.job import Job
from shared.domain.states import CLOCK_MARGIN, DEFAULT_STALL_LIMIT, Seen, State

REDELIVERY_MARGIN = CLOCK_MARGIN
"""A message comes back this long after its lease ends, when the next worker may reclaim at once: the lease counts from
just before the message was hidden, so it never ends later than the message's rest allows.
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """Temporary ownership of a job: its run number (the fence) and a token that only this holder knows."""

    job_id: str
    run: int
    holder: str

    def seen(self, checkpoint: Mapping[str, object] | None = None, effect: str | None = None) -> Seen:
        """What a write under this lease must find in the record."""
        return Seen(run=self.run, holder=self.holder, checkpoint=checkpoint, effect=effect)

    def is_of(self, found: Job | None) -> bool:
        """Whether no other worker has had the job since. The run number alone does not say so: the record of a key may
        live twice.
        """
        return found is not None and (found.run, found.holder) == (self.run, self.holder)

    def lasts(self, found: Job | None, now: datetime) -> bool:
        """Whether something may be begun under it: the job runs, is ours, and its lease is not over by our clock.
        `found` is as old as the answer that brought it, which may have come late.
        """
        ends_at = None if found is None else found.lease_expires_at
        running = found is not None and found.state is State.RUNNING
        return running and self.is_of(found) and ends_at is not None and now < ends_at


def lapsed(job: Job, now: datetime) -> bool:
    """Its holder has lost the right to the job, by either's clock."""
    return job.lease_expires_at is not None and job.lease_expires_at <= now - CLOCK_MARGIN


def as_found(found: Job, now: datetime) -> Seen:
    """What a write by somebody who does not hold the job must find: the record exactly as it was read."""
    return Seen(
        now=now,
        dispatch=found.dispatch,
        run=found.run,
        attempts=found.attempts,
        lease_expires_at=found.lease_expires_at,
        outbox=found.outbox,
        published_at=found.published_at,
        reason=found.reason,
        stall_limit=DEFAULT_STALL_LIMIT,
    )
