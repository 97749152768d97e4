"""The run object a handler holds: its effects, and its only heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from shared.domain.job import MAX_EFFECT_NAME, Job, Progress
from shared.domain.lease import REDELIVERY_MARGIN, Lease
from shared.domain.states import RENEW
from shared.domain.text import flaw
from shared.errors import DeterministicFailure, LeaseLost, MoveRefused, NotAllowed, StoreUnavailable
from shared.jobs import JobType, Payload
from shared.operations.insist import INSIST_MARGIN, insist
from shared.operations.once import RunEffects
from shared.operations.own_files import OwnFiles
from shared.ports import Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts


T = TypeVar("T")


class CancelRequested(BaseException):
    """An operator asked for the job to stop. Not an Exception, so that a handler's own `except` lets it pass."""


class RunHandle:
    """See shared.domain.run.Run. Once closed it renews nothing: a thread that outlived its attempt stays silent."""

    def __init__(
        self, job: Job, lease: Lease, message: Message, job_type: JobType, deadline_at: datetime, ports: WorkerPorts
    ) -> None:
        self.job_id, self.attempt, self.tenant = job.job_id, job.attempts, job.tenant
        self.idempotency_key, self.last_error_code = job.job_id, job.error_code
        self.stage, self.checkpoint = ports.stage, job.checkpoint
        self.lease_expires_at = job.lease_expires_at
        self._deadline_at = deadline_at
        self.latest: Progress | None = None
        self.last_try = timedelta()
        self._lease, self._message, self._length, self._ports = lease, message, job_type.lease, ports
        self._effects = RunEffects(lease, ports, self._has_time, self._raise_if_closed)
        self._job_type = job_type
        self.files = OwnFiles(ports.files, ports.queue, None, job.job_id, ())
        self._renewed_at = ports.clock.now()
        self._highest: dict[str, int] = {}
        self._closed = False

    def act_for(self, payload: Payload) -> None:
        """Begin as the tenant whose job it is. Raises DeterministicFailure (tenant-mismatch) for a payload that names
        another tenant or what belongs to one; the door refuses those, but it is not the only way to a record.
        """
        try:
            self.tenant = self._job_type.owner(payload, self.tenant)
        except NotAllowed as e:
            raise DeterministicFailure(e.detail, code="tenant-mismatch") from e
        ports, shared = self._ports, self._job_type.shared_files
        self.files = OwnFiles(ports.files, ports.queue, self.tenant, self.job_id, shared)

    def close(self) -> None:
        """The attempt is over."""
        self._closed = True

    @property
    def time_left(self) -> timedelta:
        """See shared.domain.run.Run."""
        return max(self._deadline_at - self._ports.clock.now(), timedelta())

    def once(self, name: str, fn: Callable[[], T], *, at_most_once: bool = False) -> T:
        """See shared.domain.run.Run."""
        if not isinstance(name, str) or not 0 < len(name) <= MAX_EFFECT_NAME:
            raise ValueError(f"an effect's name has 1 to {MAX_EFFECT_NAME} characters, got {name!r:.80}")
        if found := flaw(name):
            raise ValueError(f"an effect's name cannot hold {found}: {name!r:.80}")
        self._raise_if_closed(f"effect {name!r}")
        try:
            return self._effects.once(name, fn, at_most_once=at_most_once)
        except LeaseLost:
            self.close()
            raise

    def say_unsaid(self, has_time: Callable[[timedelta], bool]) -> None:
        """See RunEffects."""
        self._effects.say_unsaid(has_time)

    def _raise_if_closed(self, what: str) -> None:
        if self._closed:
            raise LeaseLost(self.job_id, f"{what} after the attempt's end", None)

    def progress(self, done: int, total: int, unit: str) -> None:
        """See shared.domain.run.Run."""
        self._raise_if_closed("progress")
        # Only a number that grew keeps a lease: a loop that reports the same page for ever must lose its job.
        self.latest = Progress(_count("done", done), _count("total", total), str(unit)[:32])
        due = self._ports.clock.now() - self._renewed_at >= self._length / 3
        if due and done > self._highest.get(self.latest.unit, -1):
            self._renew(self.latest)

    def _renew(self, progress: Progress) -> None:
        def write() -> Job:
            ends_at = self._ports.clock.now() + self._length
            return self._ports.store.apply(
                self.job_id, RENEW, self._lease.seen(), lease_expires_at=ends_at, progress=progress
            )

        try:
            # Reports may be far apart: the next one may come after the lease's end.
            job = insist(write, self._has_time, self.job_id, self._ports)
        except MoveRefused as e:
            self.close()
            raise LeaseLost(self.job_id, e.move, e.found) from e
        except StoreUnavailable as e:
            self._ports.log.event("renew-failed", level="warning", job=self.job_id, error=e)
            return
        # Known before SQS is asked: a fence that falls in between must plan the retry after the new end.
        assert job.lease_expires_at is not None  # RENEW writes it
        self._renewed_at, self.lease_expires_at = job.lease_expires_at - self._length, job.lease_expires_at
        # The record first: were the message hidden longer than the lease, a crash would cost the difference.
        self._ports.mailbox.hide([self._message], [self._length + REDELIVERY_MARGIN])
        self._highest[progress.unit] = progress.done
        if job.cancel_request is not None:
            raise CancelRequested

    def _has_time(self, took: timedelta) -> bool:
        """For one more try that takes as long. Within the deadline too: a handler that insists past it would pass for
        one that hangs.
        """
        self.last_try = took
        ends_at = min(self._deadline_at, self.lease_expires_at or self._deadline_at)
        return not self._closed and ends_at - self._ports.clock.now() > max(took, INSIST_MARGIN)


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"progress: {name} must be a whole number from 0, got {value!r}")
    return value
