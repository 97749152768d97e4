"""One lane over days: the real worker, promoter and sweeper on the twin, SQS as the histories know it, a clock that
jumps to the next thing that happens by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.adapters.sqs import message_of
from shared.domain.doorbell import bell_of
from shared.domain.job import Job
from shared.domain.states import OUTBOX_OPEN, State
from shared.errors import StoreUnavailable, TransientFailure
from shared.operations.sweep import Repaired, SweeperPorts, sweep_dead_letters
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import NOW, a_job
from tests.histories.sqs import Sqs, Standing, event_record
from tests.world import World

A_DAY = timedelta(days=1)
CALLS = ("apply", "make", "get", "due", "get_payload", "record_run")


@dataclass
class Table:
    """The table as the processes reach it: `broken` is raised while it is set."""

    store: Any
    broken: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        if self.broken is not None and name in CALLS:
            raise self.broken
        return getattr(self.store, name)


@dataclass
class Lane:
    """`world` says what its worker does."""

    world: World
    table: Table = field(init=False)
    sqs: Sqs = field(init=False)
    rung: int = 0

    def __post_init__(self) -> None:
        self.queue = QUEUES[self.world.queue]
        self.sqs = Sqs([self.queue], self.queue.max_receives, False, self.world.clock.now)
        self.work, self.dead = self.sqs.work[self.queue.name], self.sqs.dead[self.queue.name]
        self.table = Table(self.world.store)
        self.world.mailbox = self  # type: ignore[assignment]

    # ---- Mailbox, DeadLetters ----------------------------------------------------------------------------------------

    def hide(self, messages: Sequence[Message], for_: Sequence[timedelta]) -> Sequence[Message]:
        pairs = zip(messages, for_, strict=True)
        return [message for message, wait in pairs if not self.sqs.hide(self.work, message.receipt, wait)]

    def receive(self, queue: Any) -> Sequence[Message]:
        """The sweeper's look; every message once."""
        names = [one.name for one in self.dead.visible(self.world.clock.now())][:10]
        return [message_of(event_record(one)) for one in self.sqs.receive(self.dead, names, timedelta(minutes=5))]

    def delete(self, queue: Any, messages: Sequence[Message]) -> None:
        for message in messages:
            self.sqs.delete(self.dead, message.receipt)

    # ---- what happens -----------------------------------------------------------------------------------------------

    def submit(self, **fields: Any) -> Job:
        """A job of a key of its own unless `ordering_key` says one; it may wait for a month."""
        now = self.world.clock.now()
        times = {"created_at": now, "available_at": now, "deadline_at": now + 30 * A_DAY}
        job = a_job(queue=self.queue.name, **(times | fields))
        self.world.store.submit(job, now)
        return job

    def found(self, job: Job) -> Job:
        """Its record."""
        found = self.world.store.get(job.job_id)
        assert found is not None
        return found

    def message(self, job: Job) -> Standing:
        """Its one message in the queue."""
        (one,) = [one for one in self.work.messages.values() if job.job_id in one.body]
        return one

    def until(self, done: Callable[[], bool], most: timedelta = 40 * A_DAY) -> timedelta:
        """Let time pass until this holds; returns how long that took. Raises AssertionError when it takes too long."""
        begun = self.world.clock.now()
        while not done():
            self._ring_all()
            if not self._work():
                self._wait(begun + most)
            assert self.world.clock.now() < begun + most, f"not in {most}"
        passed: timedelta = self.world.clock.now() - begun
        return passed

    def for_(self, duration: timedelta) -> None:
        """Let so much time pass."""
        until: datetime = self.world.clock.now() + duration
        self._ring_all()
        while self._next() <= until:
            if not self._work():
                self._wait(until)
            self._ring_all()
        self.world.clock.forward(max(until - self.world.clock.now(), timedelta()))

    def without_table(self, duration: timedelta, why: Exception | None = None) -> None:
        """The same, and nobody can read or write the table meanwhile."""
        self.table.broken = why or StoreUnavailable("the table did not answer")
        self.for_(duration)
        self.table.broken = None

    def throttled(self, job: Job, times: int) -> None:
        """Polls whose invocations Lambda refused: each costs its message a receive."""
        self._relay()
        for _ in range(times):
            for one in [one for one in self.work.messages.values() if job.job_id in one.body]:
                self.sqs.receive(self.work, [one.name], timedelta())

    def moved_away(self, job: Job) -> None:
        """SQS gives up on its message, whatever spent the receives."""
        self._relay()
        self.sqs._move_away(self.work, self.message(job))

    def sweep_dead_letters(self) -> list[Repaired]:
        """One look through the DLQ, and the relay after it."""
        world = self.world
        ports = SweeperPorts(
            store=self.table,
            dead_letters=self,
            clock=world.clock,
            log=world.log,
            meter=world.meter,
            queues={self.queue.name: self.queue},
        )
        repaired = sweep_dead_letters(self.queue, ports)
        self._relay()
        return repaired

    def _ring_all(self) -> None:
        self._promote()
        self._relay()

    def _relay(self) -> None:
        """Rings what the stream shows; its marks are of no interest here."""
        images = self.world.store.images
        while self.rung < len(images):
            job = images[self.rung]
            self.rung += 1
            if job.outbox == OUTBOX_OPEN and job.state in (State.QUEUED, State.DEAD):
                self._ring(job)

    def _ring(self, job: Job) -> None:
        dead, fifo = job.state is State.DEAD, self.queue.fifo
        bell = bell_of(job, shared=False)
        group = (job.ordering_key or job.job_id) if fifo else None
        delay = timedelta() if fifo or job.available_at is None else max(job.available_at - self._now, timedelta())
        self.sqs.send(self.dead if dead else self.work, bell.body(), group, str(self.rung), delay)

    @property
    def _now(self) -> datetime:
        now: datetime = self.world.clock.now()
        return now

    def _promote(self) -> None:
        if self.table.broken is None and any(job.due_at and job.due_at <= self._now for job in self._jobs()):
            self.world.promote()

    def _jobs(self) -> list[Job]:
        return list(self.world.store._jobs.values())

    def _work(self) -> bool:
        names = [one.name for one in self.work.visible(self._now)][: self.queue.batch_size]
        got = self.sqs.receive(self.work, names, self.queue.visibility_timeout)
        if got:
            messages = [message_of(event_record(one)) for one in got]
            kept = self.world.run_batch(*messages, store=self.table, mailbox=self)
            for message in messages:
                if message.message_id not in kept:
                    self.sqs.delete(self.work, message.receipt)
        return bool(names)

    def _next(self) -> datetime:
        held = [] if self.work.visible(self._now) == [] else [self._now]
        times = [one.visible_at for one in self.work.messages.values() if one.visible_at > self._now]
        due = [] if self.table.broken else [max(job.due_at, self._now) for job in self._jobs() if job.due_at]
        return min([*held, *times, *due], default=datetime.max.replace(tzinfo=NOW.tzinfo))

    def _wait(self, until: datetime) -> None:
        self.world.clock.forward(max(min(self._next(), until) - self._now, timedelta()))
        self.work.expire(self._now)


def busy_at_first(failed: set[str]) -> Callable[[Any, Any], None]:
    """Each job fails once, then works."""

    def handler(payload: Any, run: Any) -> None:
        if run.job_id not in failed:
            failed.add(run.job_id)
            raise TransientFailure("busy")

    return handler
