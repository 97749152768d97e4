"""What a handler holds while it runs: its effects, its files, and its only heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from shared.domain.job import MAX_EFFECT_NAME, Progress
from shared.domain.text import flaw
from shared.errors import DeterministicFailure, LeaseLost, NotAllowed
from shared.jobs import Payload
from shared.operations.run.effects import RunEffects
from shared.operations.run.files import OwnFiles
from shared.operations.run.held import Held

T = TypeVar("T")


class RunHandle:
    """See shared.domain.run.Run. Once its run is closed it renews nothing."""

    def __init__(self, held: Held, effects: RunEffects) -> None:
        job = held.job
        self.job_id, self.attempt, self.tenant = job.job_id, job.attempts, job.tenant
        self.idempotency_key, self.last_error_code = job.job_id, job.error_code
        self.stage, self.checkpoint = held.ports.stage, job.checkpoint
        self.held, self._effects = held, effects
        self.files = OwnFiles(held.ports.files, held.invocation.lane.queue, None, job.job_id, ())
        self._highest: dict[str, int] = {}

    def act_for(self, payload: Payload) -> None:
        """Begin as the tenant whose job it is. Raises DeterministicFailure (tenant-mismatch) for a payload that names
        another tenant or what belongs to one; the door refuses those, but it is not the only way to a record.
        """
        held = self.held
        try:
            self.tenant = held.job_type.owner(payload, self.tenant)
        except NotAllowed as e:
            raise DeterministicFailure(e.detail, code="tenant-mismatch") from e
        queue, shared = held.invocation.lane.queue, held.job_type.shared_files
        self.files = OwnFiles(held.ports.files, queue, self.tenant, self.job_id, shared)

    @property
    def time_left(self) -> timedelta:
        """See shared.domain.run.Run."""
        return max(self.held.deadline_at - self.held.ports.clock.now(), timedelta())

    def once(self, name: str, fn: Callable[[], T], *, at_most_once: bool = False) -> T:
        """See shared.domain.run.Run."""
        if not isinstance(name, str) or not 0 < len(name) <= MAX_EFFECT_NAME:
            raise ValueError(f"an effect's name has 1 to {MAX_EFFECT_NAME} characters, got {name!r:.80}")
        if found := flaw(name):
            raise ValueError(f"an effect's name cannot hold {found}: {name!r:.80}")
        self.held.raise_if_closed(f"effect {name!r}")
        try:
            return self._effects.once(name, fn, at_most_once=at_most_once)
        except LeaseLost:
            self.held.close()
            raise

    def progress(self, done: int, total: int, unit: str) -> None:
        """See shared.domain.run.Run."""
        self.held.raise_if_closed("progress")
        # Only a number that grew keeps a lease: a loop that reports the same page for ever must lose its job.
        self.held.latest = latest = Progress(_count("done", done), _count("total", total), str(unit)[:32])
        if self.held.renews_soon() and done > self._highest.get(latest.unit, -1) and self.held.renew(latest):
            self._highest[latest.unit] = latest.done


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"progress: {name} must be a whole number from 0, got {value!r}")
    return value
