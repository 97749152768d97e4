"""The run object a handler holds: its effects, and its only heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from shared.domain.failures import classify
from shared.domain.job import MAX_EFFECT_NAME, Job, Progress
from shared.domain.lease import REDELIVERY_MARGIN, Lease
from shared.domain.not_done import proves_not_done
from shared.domain.reasons import before_that
from shared.domain.states import RENEW
from shared.domain.text import flaw
from shared.errors import (
    DeterministicFailure,
    LeaseLost,
    MoveRefused,
    NotAllowed,
    NotDone,
    StoreUnavailable,
    UnknownOutcome,
)
from shared.jobs import JobType, Payload
from shared.operations.insist import INSIST_MARGIN, insist
from shared.operations.own_files import OwnFiles
from shared.ports import Guarded, Message

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
        self._effects_lock = threading.Lock()
        self._effects_active: set[str] = set()
        self._effects_done: dict[str, Any] = {}
        self._effects_open: dict[str, BaseException] = {}
        self.latest: Progress | None = None
        self._lease, self._message, self._length, self._ports = lease, message, job_type.lease, ports
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
        with self._effects_lock:
            if name in self._effects_active:  # inside itself, or in another thread of the handler
                raise DeterministicFailure(f"effect {name!r} is already in progress in this run", code="effect-nested")
            self._effects_active.add(name)
        try:
            return self._guarded(name, fn, at_most_once)
        except LeaseLost:
            self.close()
            raise
        except NotDone as e:
            not_done = e.failure
        finally:
            with self._effects_lock:
                self._effects_active.discard(name)
        raise not_done

    def _guarded(self, name: str, fn: Callable[[], T], at_most_once: bool) -> T:
        before = self._effects_open.get(name)
        guarded = Guarded(self._lease, name, at_most_once, open=before is not None, insist=self._insist)
        try:
            outcome: T = self._ports.effects.once(guarded, lambda: self._called(name, fn))
        except UnknownOutcome as e:
            if before is None:
                raise
            failure = classify(before, self._ports.clock.now())
            raise UnknownOutcome(before_that(str(e), failure.for_callers)) from before
        return outcome

    def _called(self, name: str, fn: Callable[[], T]) -> T:
        """Its outcome. Called again in the same run where the table did not take that, it is only recorded."""
        self._raise_if_closed(f"effect {name!r}")
        if name in self._effects_done:
            outcome: T = self._effects_done[name]
            return outcome
        try:
            self._effects_done[name] = outcome = fn()
        except BaseException as e:
            if isinstance(e, NotDone):
                raise
            if isinstance(e, Exception) and proves_not_done(e):
                raise NotDone(e) from e
            self._effects_open[name] = e
            raise
        return outcome

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
            job = self._insist(write)  # reports may be far apart: the next one may come after the lease's end
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

    def _insist(self, write: Callable[[], Job]) -> Job:
        return insist(write, self._has_time, self.job_id, self._ports)

    def _has_time(self, took: timedelta) -> bool:
        """For one more try that takes as long. Within the deadline too: a handler that insists past it would pass for
        one that hangs.
        """
        ends_at = min(self._deadline_at, self.lease_expires_at or self._deadline_at)
        return not self._closed and ends_at - self._ports.clock.now() > max(took, INSIST_MARGIN)


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"progress: {name} must be a whole number from 0, got {value!r}")
    return value
