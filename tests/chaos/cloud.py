"""A small cloud on the twin: a stream, a standard queue with visibility and receive counts, a DLQ; and a relay, a
worker and a promoter, each of which can be killed before or after any call it makes to the world outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from shared.domain.doorbell import Bell
from shared.domain.job import Job
from shared.domain.states import FINAL, OUTBOX_OPEN
from shared.errors import RingRefused
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.ports import Message, Ring, Unsent
from shared.queues import QUEUES, Queue
from tests.builders import RecordedLog
from tests.world import World

LANE = QUEUES["exports.month-end"]
STEPS = 60


class Killed(BaseException):
    """The process is gone: this call and every later one of the same process."""


@dataclass
class Killer:
    """Kills one process at one of its calls. Calls are numbered from 1 over all processes of a history."""

    at_call: int = 0
    before: bool = True
    calls: list[str] = field(default_factory=list)
    dead: bool = False

    def guard(self, port: Any, *names: str) -> Any:
        """The port, its methods counted."""
        return _Guarded(port, names, self)

    def call(self, name: str, act: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        self.calls.append(name)
        struck = len(self.calls) == self.at_call
        if struck and self.before:
            self.dead = True
            raise Killed
        answer = act()
        if struck:
            self.dead = True
            raise Killed
        return answer


class _Guarded:
    def __init__(self, port: Any, names: Sequence[str], killer: Killer) -> None:
        self._port, self._names, self._killer = port, names, killer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._names:
            return found
        return lambda *args, **kwargs: self._killer.call(name, lambda: found(*args, **kwargs))


STORE = ("submit", "apply", "get", "get_payload", "put_payload", "record_run", "due")


@dataclass
class Standing:
    """A message in the queue."""

    message: Message
    visible_at: datetime


@dataclass
class Cloud:
    """One job's world. `killer` strikes once."""

    handler: Callable[[Any, Any], Any]
    killer: Killer = field(default_factory=Killer)
    queue: dict[str, Standing] = field(default_factory=dict)
    dead_letters: list[Ring] = field(default_factory=list)
    streamed: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        self.world = World(handler=self.handler, deadline=timedelta(seconds=20))
        self.plain_store = self.world.store
        self.world.store = self.killer.guard(self.plain_store, *STORE)
        self.world.mailbox = self.killer.guard(self, "hide", "set_aside", "acknowledge")

    # ---- SQS --------------------------------------------------------------------------------------------------------

    def ring(self, queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        for ring in rings:
            if ring.dead_letter:
                self.dead_letters.append(ring)
                continue
            self.sent += 1
            bell = Bell(
                job_id=ring.job_id, dispatch=ring.dispatch, type=ring.type, payload_version=ring.payload_version
            )
            message = Message(
                message_id=f"m{self.sent}",
                receipt="r",
                body=bell.body(),
                job_id=bell.job_id,
                dispatch=bell.dispatch,
                type=bell.type,
                payload_version=bell.payload_version,
                group=None,
                receives=0,
            )
            self.queue[message.message_id] = Standing(message, self.world.clock.now() + ring.delay)
        return []

    def park(self, record: object, why: str) -> None:
        raise RingRefused(f"nothing here is poison: {why}")

    def hide(self, messages: Sequence[Message], for_: Sequence[timedelta]) -> None:
        for message, wait in zip(messages, for_, strict=True):
            if message.message_id in self.queue:
                self.queue[message.message_id].visible_at = self.world.clock.now() + wait

    def set_aside(self, message: Message, why: str) -> None:
        raise AssertionError(f"an orphan: {why}")

    def acknowledge(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.queue.pop(message.message_id, None)

    # ---- the processes ----------------------------------------------------------------------------------------------

    def relay_once(self) -> None:
        """The stream hands over its next record; it stays the next until the relay returns."""
        while self.streamed < len(self.plain_store.images):
            job = self.plain_store.images[self.streamed]
            ended = job.outbox != OUTBOX_OPEN
            while not ended:
                ended = self._process(lambda job=job: relay([OutboxRecord({}, job)], self._relay_ports()) or True)
            self.streamed += 1

    def _relay_ports(self) -> RelayPorts:
        return RelayPorts(
            store=self.world.store,
            doorbell=self.killer.guard(self, "ring", "park"),
            clock=self.world.clock,
            log=RecordedLog(),
            queues=QUEUES,
        )

    def work_once(self) -> None:
        """One invocation with every visible message; what it answers is deleted unless it died."""
        now = self.world.clock.now()
        due = [standing for standing in self.queue.values() if standing.visible_at <= now][:4]
        for standing in due:
            standing.message = replace(standing.message, receives=standing.message.receives + 1)
            standing.visible_at = now + LANE.visibility_timeout
        messages = [standing.message for standing in due]
        kept = self._process(lambda: self.world.run_batch(*messages)) if messages else []
        if kept is not None:
            for message in messages:
                if message.message_id not in kept:
                    self.queue.pop(message.message_id, None)

    def promote_once(self) -> None:
        self._process(self.world.promote)

    def _process(self, act: Callable[[], Any]) -> Any:
        """Run one process; None when it was killed."""
        try:
            return act()
        except Killed:
            assert self.killer.dead
            self.killer.dead = False
            return None

    # ---- history ----------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        self.plain_store.submit(job, self.world.clock.now())

    def go_on(self, job_id: str) -> Job:
        """Until the job is final and its messages are gone. Raises AssertionError when that takes too long."""
        for _ in range(STEPS):
            self.relay_once()
            self.work_once()
            self.relay_once()
            job = self.plain_store.get(job_id)
            assert job is not None
            if job.state in FINAL and job.outbox is None and not self.queue:
                return job
            self._wait(job)
            self.promote_once()
        raise AssertionError(f"not ended after {STEPS} steps: {job}, queue {list(self.queue.values())}")

    def _wait(self, job: Job) -> None:
        """The clock goes to the next thing that happens."""
        now = self.world.clock.now()
        times = [standing.visible_at for standing in self.queue.values()] + ([job.due_at] if job.due_at else [])
        later = [at for at in times if at > now]
        if later and not [at for at in times if at <= now]:
            self.world.clock.forward(min(later) - now)
