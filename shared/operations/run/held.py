"""A job under its lease: every write that its run makes, and its heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from shared.domain import writes
from shared.domain.job import Job, Progress
from shared.domain.lease import REDELIVERY_MARGIN, Lease
from shared.domain.refused import Refusal, refused
from shared.domain.writes import Write
from shared.errors import LeaseLost, MoveRefused, StoreUnavailable
from shared.jobs import JobType
from shared.operations.run.delivery import ONE_CALL
from shared.operations.run.insist import INSIST_MARGIN, insist
from shared.operations.run.invocation import Invocation
from shared.operations.run.ports import WorkerPorts
from shared.ports import Message

T = TypeVar("T")

KEPT_FOR_THE_END = timedelta(seconds=5)


class CancelRequested(BaseException):
    """An operator asked for the job to stop. Not an Exception, so that a handler's own `except` lets it pass."""


@dataclass(slots=True)
class Held:
    """One run of a job, from its lease to its end.

    job         as it was leased
    expires_at  when the lease ends; later with each renewal
    latest      how far the handler said it has come
    closed      the attempt is over
    fenced      the watch ends this run, beside others: it cannot wait for the table
    """

    job: Job
    message: Message
    job_type: JobType
    invocation: Invocation
    deadline_at: datetime
    latest: Progress | None = None
    closed: bool = False
    fenced: bool = False
    expires_at: datetime = field(init=False)
    lease: Lease = field(init=False)
    _renewed_at: datetime = field(init=False)
    _last_try: timedelta = timedelta()
    _ending: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        assert self.job.lease_expires_at is not None  # LEASE and RECLAIM write it
        self.lease = Lease(self.job.job_id, self.job.run, self.job.holder or "")
        self.expires_at, self._renewed_at = self.job.lease_expires_at, self.ports.clock.now()

    @property
    def ports(self) -> WorkerPorts:
        """Of its environment."""
        return self.invocation.ports

    def claim(self) -> bool:
        """Whether the caller is the one to end the run; true once. The thread that ran the handler, or the watch."""
        return self._ending.acquire(blocking=False)

    def close(self) -> None:
        """The attempt is over: a thread that outlived it begins nothing and renews nothing."""
        self.closed = True

    def raise_if_closed(self, what: str) -> None:
        """Raises LeaseLost once the attempt is over."""
        if self.closed:
            raise LeaseLost(self.job.job_id, f"{what} after the attempt's end", None)

    # ---- while the handler runs --------------------------------------------------------------------------------------

    def renews_soon(self) -> bool:
        """A third of the lease has passed since it was last renewed."""
        return self.ports.clock.now() - self._renewed_at >= self.job_type.lease / 3

    def renew(self, progress: Progress) -> bool:
        """Keep the lease; False when the table does not answer. Raises LeaseLost, CancelRequested."""
        length = self.job_type.lease
        try:
            # Reports may be far apart: the next one may come after the lease's end.
            job = insist(lambda: self._renewed(progress), self.has_time, self.job.job_id, self.ports)
        except MoveRefused as e:
            self.close()
            raise LeaseLost(self.job.job_id, e.move, e.found) from e
        except StoreUnavailable as e:
            self.ports.log.event("renew-failed", level="warning", job=self.job.job_id, error=e)
            return False
        # Known before SQS is asked: a fence that falls in between must plan the retry after the new end.
        assert job.lease_expires_at is not None  # RENEW writes it
        self._renewed_at, self.expires_at = job.lease_expires_at - length, job.lease_expires_at
        # The record first: were the message hidden longer than the lease, a crash would cost the difference.
        self.ports.mailbox.hide([self.message], [length + REDELIVERY_MARGIN])
        if job.cancel_request is not None:
            raise CancelRequested
        return True

    def _renewed(self, progress: Progress) -> Job:
        ends_at = self.ports.clock.now() + self.job_type.lease
        return self.ports.store.apply(self.job.job_id, writes.renew(self.lease, ends_at, progress))

    def has_time(self, took: timedelta) -> bool:
        """For one more try that takes as long. Within the deadline too: a handler that insists past it would pass for
        one that hangs.
        """
        self._last_try = took
        ends_at = min(self.deadline_at, self.expires_at)
        return not self.closed and ends_at - self.ports.clock.now() > max(took, INSIST_MARGIN)

    # ---- its end -----------------------------------------------------------------------------------------------------

    def write(self, write: Write) -> None:
        """Make a move that ends the run. One that an earlier try made, whose answer was lost, is made.

        Raises LeaseLost when another worker has had the job since, MoveRefused when it is still this run's and the move
        is not allowed, StoreUnavailable.
        """
        try:
            self.insist(lambda: self.ports.store.make(self.job.job_id, write))
        except MoveRefused as e:
            why = refused(write, self.lease, e.found)
            if why is Refusal.LANDED:
                return
            if why is Refusal.MINE:
                raise
            raise LeaseLost(self.job.job_id, write.move.name, e.found) from e

    def insist(self, call: Callable[[], T]) -> T:
        """Given up, the run would pass for one whose worker vanished: after two of those a healthy job is `stalled`."""
        return insist(call, self._may_insist, self.job.job_id, self.ports)

    def may_report(self, took: timedelta) -> bool:
        """What comes before the end must leave it its time."""
        left = self.expires_at - self.ports.clock.now() - max(took, self._last_try)
        return self._may_insist(took) and left > KEPT_FOR_THE_END

    def _may_insist(self, _took: timedelta) -> bool:
        if self.fenced or self.invocation.hangs:
            return False
        return self.expires_at - self.ports.clock.now() > INSIST_MARGIN and self.invocation.time_left() > ONE_CALL
