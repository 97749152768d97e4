"""The run object a handler holds, and its only heartbeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.domain.job import Job, Progress
from shared.domain.lease import REDELIVERY_MARGIN, Lease
from shared.domain.states import RENEW
from shared.errors import LeaseLost, MoveRefused, StoreUnavailable
from shared.jobs import JobType
from shared.ports import Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts


class CancelRequested(BaseException):
    """An operator asked for the job to stop. Not an Exception, so that a handler's own `except` lets it pass."""


class RunHandle:
    """See shared.domain.run.Run. Once closed it renews nothing: a thread that outlived its attempt stays silent."""

    def __init__(self, job: Job, lease: Lease, message: Message, job_type: JobType, ports: WorkerPorts) -> None:
        self.job_id, self.attempt, self.tenant = job.job_id, job.attempts, job.tenant
        self.idempotency_key = job.job_id
        self.files = ports.files
        self.latest: Progress | None = None
        self._lease, self._message, self._length, self._ports = lease, message, job_type.lease, ports
        self._renewed_at = ports.clock.now()
        self._renewed_with: Progress | None = None
        self._closed = False

    def close(self) -> None:
        """The attempt is over."""
        self._closed = True

    def progress(self, done: int, total: int, unit: str) -> None:
        """See shared.domain.run.Run."""
        if self._closed:
            raise LeaseLost(self.job_id, "progress after the end", None)
        self.latest = Progress(_count("done", done), _count("total", total), str(unit)[:32])
        due = self._ports.clock.now() - self._renewed_at >= self._length / 3
        if due and self._moved(self.latest):
            self._renew(self.latest)

    def _moved(self, now: Progress) -> bool:
        """Only a number that grew keeps a lease: a loop that reports the same page for ever must lose its job."""
        before = self._renewed_with
        return before is None or now.unit != before.unit or now.done > before.done

    def _renew(self, progress: Progress) -> None:
        now = self._ports.clock.now()
        try:
            job = self._ports.store.apply(
                self.job_id, RENEW, self._lease.seen(), lease_expires_at=now + self._length, progress=progress
            )
        except MoveRefused as e:
            self.close()
            raise LeaseLost(self.job_id, e.move, e.found) from e
        except StoreUnavailable as e:  # the lease still stands; the next report tries again
            self._ports.log.event("renew-failed", level="warning", job=self.job_id, error=e)
            return
        # The record first: were the message hidden longer than the lease, a crash would cost the difference.
        self._ports.mailbox.hide([self._message], [self._length + REDELIVERY_MARGIN])
        self._renewed_at, self._renewed_with = now, progress
        if job.cancel_request is not None:
            raise CancelRequested


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"progress: {name} must be a whole number from 0, got {value!r}")
    return value
