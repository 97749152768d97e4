"""A small cloud on the twin: stream, queue, DLQ, and the processes that work on them, each of which may be killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.adapters.effects import PowertoolsEffects
from shared.domain.doorbell import parse
from shared.domain.job import Job
from shared.domain.states import FINAL, OUTBOX_OPEN
from shared.operations.promote import PromoterPorts, promote
from shared.operations.redrive import OperatorPorts
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.run import Lane, WorkerPorts, run_batch
from shared.operations.sweep import SweeperPorts, sweep_dead_letters, sweep_job
from shared.ports import Message, Ring, Unsent
from shared.queues import QUEUES, Queue
from tests.builders import RecordedLog
from tests.chaos.process import Killed, Process, Strike
from tests.chaos.provider import Provider
from tests.world import World

if TYPE_CHECKING:
    from tests.chaos.kinds import Kind

STEPS = 120
TICK = timedelta(seconds=61)


@dataclass
class Standing:
    """A message in the queue of a lane, and when it can be received (again)."""

    lane: str
    message: Message
    visible_at: datetime


@dataclass
class Cloud:
    """The world of one history."""

    kind: Kind
    strike: Strike = field(default_factory=Strike)
    queue: list[Standing] = field(default_factory=list)
    dlq: list[Message] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    outbox: list[OutboxRecord] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    happened: set[str] = field(default_factory=set)
    provider: Provider = field(init=False)
    over: threading.Event = field(default_factory=threading.Event)
    streamed: int = 0
    sent: int = 0
    worker_deaths: int = 0
    working: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        handler = self.kind.handler
        self.world = World(handler=lambda payload, run: handler(self, run), queue=self.kind.queue)
        self.world.deadline = self.kind.deadline
        self.store, self.clock = self.world.store, self.world.clock
        self.provider = Provider(self.store.get)

    def first(self, what: str) -> bool:
        """True once per history: what happens to a job is not repeated for its next run."""
        new = what not in self.happened
        self.happened.add(what)
        return new

    @property
    def jobs(self) -> list[Job]:
        """The records of all accepted jobs."""
        return [job for job_id in self.accepted if (job := self.store.get(job_id)) is not None]

    # ---- SQS ---------------------------------------------------------------------------------------------------------

    @property
    def lane(self) -> Queue:
        return QUEUES[self.kind.queue]

    def ring(self, queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        if self.kind.first_ring_refused and self.first("refused"):
            return [Unsent(ring, "ThrottlingException", hopeless=False) for ring in rings]
        for ring in rings:
            group, dead_letter = ring.group if queue.fifo else None, ring.bell.dead_letter
            message = self.send(ring.bell.body(), group, ring.delay, to_dlq=dead_letter, lane=queue.name)
            assert message.bell == ring.bell
        return []

    def send(
        self, body: str, group: str | None = None, delay: timedelta = timedelta(), to_dlq: bool = False, lane: str = ""
    ) -> Message:
        self.sent += 1
        message = Message(
            message_id=f"m{self.sent}",
            receipt="r",
            body=body,
            bell=parse(body),
            group=group,
            receives=self.kind.receives,
        )
        if to_dlq:
            self.dlq.append(message)
        else:
            self.queue.append(Standing(lane or self.kind.queue, message, self.clock.now() + delay))
        return message

    def park(self, record: object, why: str) -> None:
        self.orphans.append(why)

    def hide(self, messages: Sequence[Message], for_: Sequence[timedelta]) -> Sequence[Message]:
        for message, wait in zip(messages, for_, strict=True):
            for standing in self.queue:
                if standing.message.message_id == message.message_id:
                    standing.visible_at = self.clock.now() + wait
        return ()

    def set_aside(self, message: Message, why: str) -> None:
        self.orphans.append(why)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        gone = {message.message_id for message in messages}
        self.queue = [standing for standing in self.queue if standing.message.message_id not in gone]

    def receive(self, queue: Queue) -> Sequence[Message]:
        unseen = [message for message in self.dlq if message.message_id not in self.looked_at][:10]
        self.looked_at |= {message.message_id for message in unseen}
        return unseen

    def delete(self, queue: Queue, messages: Sequence[Message]) -> None:
        gone = {message.message_id for message in messages}
        self.dlq = [message for message in self.dlq if message.message_id not in gone]

    def purge(self) -> None:
        """The queue loses what it holds."""
        self.queue.clear()

    def move_to_dlq(self, these: Sequence[Standing] | None = None) -> None:
        """SQS moves what was received too often."""
        moved = list(self.queue) if these is None else these
        self.dlq += [standing.message for standing in moved]
        self.queue = [standing for standing in self.queue if standing not in moved]

    def redrive_natively(self) -> None:
        """StartMessageMoveTask: new message ids, receives from zero, bodies kept."""
        for message in self.dlq:
            self.send(message.body, message.group)
        self.dlq.clear()

    def _receivable(self) -> list[Standing]:
        """Of the first lane that has something. FIFO: the first of each group and what stands right behind it, none of
        a group that has one in flight.
        """
        for lane in dict.fromkeys(standing.lane for standing in self.queue):
            if found := self._receivable_on(lane):
                return found
        return []

    def _receivable_on(self, lane: str) -> list[Standing]:
        now, blocked, found = self.clock.now(), set(), []
        for standing in [one for one in self.queue if one.lane == lane]:
            group = standing.message.group
            if standing.visible_at > now or (group in blocked):
                blocked |= {group} - {None}
            else:
                found.append(standing)
        return found[: QUEUES[lane].batch_size]

    # ---- the processes -----------------------------------------------------------------------------------------------

    def process(self, act: Callable[[Process], Any]) -> Any:
        """Run one process; None when it was killed."""
        process = Process(self.strike)
        try:
            return act(process)
        except Killed:
            assert process.dead
            return None

    def until_answered(self, act: Callable[[Process], Any]) -> Any:
        """A client or an operator, who tries again until there is an answer."""
        while (answer := self.process(act)) is None:
            pass
        return answer

    def relay_all(self) -> None:
        """The stream hands over its next record until the relay returns; a killed relay gets the same one again."""
        while (record := self._next_record()) is not None:
            while not self.process(lambda p, r=record: relay([r], self._relay_ports(p)) or True):
                pass
            self._shift_stream()

    def _next_record(self) -> OutboxRecord | None:
        if self.outbox:
            return self.outbox[0]
        while self.streamed < len(self.store.images):
            job = self.store.images[self.streamed]
            if job.outbox == OUTBOX_OPEN and not self.kind.loses(self, job):
                return OutboxRecord({}, job)
            self.streamed += 1
        return None

    def _shift_stream(self) -> None:
        if self.outbox:
            self.outbox.pop(0)
        else:
            self.streamed += 1

    def _relay_ports(self, process: Process) -> RelayPorts:
        return RelayPorts(
            store=process.port("store", self.store),
            doorbell=process.port("doorbell", self),
            clock=self.clock,
            log=RecordedLog(),
            queues=QUEUES,
            time_left=lambda: timedelta(minutes=1),
        )

    def work(self) -> None:
        """One invocation with what can be received; what it answers is deleted unless it died."""
        if due := self._receivable():
            self.deliver(due)

    def deliver(self, due: Sequence[Standing]) -> None:
        lane = QUEUES[due[0].lane]
        for standing in due:
            standing.message = replace(standing.message, receives=standing.message.receives + 1)
            standing.visible_at = self.clock.now() + lane.visibility_timeout
        if used_up := [standing for standing in due if standing.message.receives > lane.max_receives]:
            self.move_to_dlq(used_up)
            return
        messages = [standing.message for standing in due]

        def invoke(process: Process) -> list[str]:
            self.working.append(process)
            try:
                left = self.kind.time_left(self)
                declared = Lane(lane, self.kind.catalogue(self, lane.name))
                ports = self._worker_ports(process)
                return run_batch(messages, ports, declared, lambda: min(left(), lane.function_timeout))
            finally:
                self.working.remove(process)

        kept = self.process(invoke)
        if kept is None:
            self.worker_deaths += 1
        else:
            self.acknowledge([message for message in messages if message.message_id not in kept])

    def worker_dies(self) -> None:
        """The worker that calls this is killed here, in the middle of its handler."""
        self.working[-1].die()

    def _worker_ports(self, process: Process) -> WorkerPorts:
        store = process.port("store", self.kind.store(self))
        return replace(
            self.world.ports,
            store=store,
            mailbox=process.port("mailbox", self),
            meter=process.port("meter", self.world.meter),
            effects=PowertoolsEffects(store, self.clock),
            end_process=process.die,
        )

    def promote_due(self) -> None:
        if self.kind.promoter_runs:
            self.process(
                lambda p: promote(
                    PromoterPorts(
                        store=p.port("store", self.store), clock=self.clock, log=RecordedLog(), queues=QUEUES
                    ),
                    timedelta(),
                )
            )

    def sweep(self) -> bool:
        """Everything the sweeper looks at, once; False if it was killed: its next tick looks again."""
        self.looked_at.clear()
        empty = not self.queue
        looks = [
            self.process(lambda p, i=job_id: [sweep_job(i, self._sweeper_ports(p), queue_empty=empty)])
            for job_id in self.accepted
        ]
        looks.append(self.process(lambda p: sweep_dead_letters(self.lane, self._sweeper_ports(p))))
        return None not in looks

    def _sweeper_ports(self, process: Process) -> SweeperPorts:
        return SweeperPorts(
            store=process.port("store", self.store),
            dead_letters=process.port("dead_letters", self),
            clock=self.clock,
            log=RecordedLog(),
            meter=process.port("meter", self.world.meter),
            queues=QUEUES,
        )

    def operator_ports(self, process: Process) -> OperatorPorts:
        return OperatorPorts(store=process.port("store", self.store), clock=self.clock, log=RecordedLog())

    def let_ttl_pass(self) -> None:
        """Payloads and history past their time are gone."""
        self.store.expire_beside(self.clock.now())

    # ---- history -----------------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Until every job is final and nothing of it is left to do. Raises AssertionError when that takes too long."""
        try:
            for _ in range(STEPS):
                self.let_ttl_pass()
                self.relay_all()
                self.kind.meanwhile(self)
                self.work()
                self.relay_all()
                if self._quiet():
                    return
                self._wait()
            raise AssertionError(f"not ended after {STEPS} steps: {self.jobs}, queue {self.queue}, DLQ {self.dlq}")
        finally:
            self.over.set()

    def _quiet(self) -> bool:
        if self.queue or any(job.state not in FINAL or job.outbox is not None for job in self.jobs):
            return False
        before = list(self.dlq)
        return self.sweep() and self.dlq == before and self.kind.done(self)

    def _wait(self) -> None:
        """The clock goes to the next thing that will happen by itself; if there is none, the sweeper's tick comes."""
        now = self.clock.now()
        promoted = [job.due_at for job in self.jobs if job.due_at and self.kind.promoter_runs]
        times = [standing.visible_at for standing in self.queue] + promoted
        if not times:
            self.clock.forward(TICK)
            self.sweep()
        elif not self._receivable() and (later := [at for at in times if at > now]):
            self.clock.forward(min(later) - now)
        self.promote_due()
