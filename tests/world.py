"""A worker on the in-memory twin, with a clock, dice and time that tests set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.effects import PowertoolsEffects
from shared.adapters.memory import MemoryJobStore, MemoryShares
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.retry import DEFAULT_POLICY, RetryPolicy
from shared.jobs import JobType, Payload, Upgrade
from shared.operations.promote import PromoterPorts, promote
from shared.operations.run import Lane, WorkerPorts, run_batch
from shared.operations.run.deliver import deliver
from shared.operations.run.invocation import Invocation
from shared.operations.run.share import LaneShare
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import NOW, MemoryMailbox, RecordedLog, RecordedMeter, TestClock, a_message

DEFAULT_LEASE = timedelta(seconds=30)


class Order(Payload):
    tenant_id: str
    month: str


Handler = Callable[[Order, Any], Any]


@dataclass
class OneType:
    """A catalogue of one type, whose handler each test gives."""

    handler: Handler
    requires_result: bool = False
    version: int = 1
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)
    policy: RetryPolicy = field(default_factory=lambda: replace(DEFAULT_POLICY, spread=timedelta()))
    deadline: timedelta = timedelta(minutes=10)
    lease: timedelta = DEFAULT_LEASE
    queue: str = "exports.month-end"

    def get(self, name: str) -> JobType | None:
        if name != "invoice-export":
            return None
        return JobType(
            name=name,
            queue=QUEUES[self.queue],
            payload=Order,
            handler=self.handler,
            version=self.version,
            upgrades=self.upgrades,
            policy=self.policy,
            deadline=self.deadline,
            lease=self.lease,
            max_age=timedelta(hours=24),
            requires_result=self.requires_result,
        )


@dataclass
class World:
    handler: Handler = lambda payload, run: None
    queue: str = "exports.month-end"
    declared_for: str = ""
    requires_result: bool = False
    version: int = 1
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)
    policy: RetryPolicy = field(default_factory=lambda: replace(DEFAULT_POLICY, spread=timedelta()))
    deadline: timedelta = timedelta(minutes=10)
    lease: timedelta = DEFAULT_LEASE
    time_left: timedelta = timedelta(minutes=14)
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    mailbox: MemoryMailbox = field(default_factory=MemoryMailbox)
    clock: Any = field(default_factory=TestClock)
    log: RecordedLog = field(default_factory=RecordedLog)
    meter: RecordedMeter = field(default_factory=RecordedMeter)
    shares: MemoryShares = field(default_factory=MemoryShares)
    ends: list[str] = field(default_factory=list)
    tokens: int = 0
    stage: str = "test"
    catalogue: Any = None

    def token(self) -> str:
        self.tokens += 1
        return f"token-{self.tokens}"

    @property
    def ports(self) -> WorkerPorts:
        return WorkerPorts(
            stage=self.stage,
            store=self.store,
            mailbox=self.mailbox,
            files=None,  # type: ignore[arg-type]
            effects=PowertoolsEffects(self.store, self.clock),
            clock=self.clock,
            log=self.log,
            meter=self.meter,
            share=LaneShare(QUEUES[self.queue], self.shares, self.clock, self.log),
            code_version="abc1234",
            dice=lambda: 1.0,
            token=self.token,
            pause=lambda for_: self.clock.forward(for_) if isinstance(self.clock, TestClock) else None,
            end_process=lambda: self.ends.append("ended"),
        )

    @property
    def lane(self) -> Lane:
        return Lane(QUEUES[self.queue], self.types)

    @property
    def types(self) -> Any:
        """What its worker knows: one type, unless `catalogue` says otherwise."""
        if self.catalogue is not None:
            return self.catalogue
        lane = self.declared_for or self.queue
        return OneType(
            self.handler,
            self.requires_result,
            self.version,
            self.upgrades,
            self.policy,
            self.deadline,
            self.lease,
            lane,
        )

    def invocation(self, **ports: Any) -> Invocation:
        """One invocation of its worker, with other `ports` where said."""
        return Invocation(self.lane, replace(self.ports, **ports), lambda: self.time_left)

    def submitted(self, job: Job) -> Message:
        self.store.submit(job, NOW)
        return a_message(job)

    def deliver(self, message: Message, invocation: Invocation | None = None, **ports: Any) -> Outcome | None:
        return deliver(message, invocation or self.invocation(**ports))

    def run_batch(
        self, *messages: Message, time_left: Callable[[], timedelta] | None = None, **ports: Any
    ) -> list[str]:
        return run_batch(messages, replace(self.ports, **ports), self.lane, time_left or (lambda: self.time_left))

    def promote(self, look_ahead: timedelta = timedelta()) -> int:
        return promote(PromoterPorts(store=self.store, clock=self.clock, log=self.log, queues=QUEUES), look_ahead)

    def when_due(self, message: Message) -> Message:
        """The job's next doorbell once its wait is over: the same message, or a fresh one after the promoter."""
        job = self.found(message)
        assert job.next_attempt_at is not None
        self.clock.forward(max(job.next_attempt_at - self.clock.now(), timedelta()))
        if job.due_key is None:
            return message
        assert self.promote() == 1
        return a_message(self.found(message))

    def found(self, message: Message) -> Job:
        job = self.store.get(message.job_id)
        assert job is not None
        return job


def raising(error: BaseException) -> Handler:
    def handler(payload: Order, run: Any) -> None:
        raise error

    return handler


def refuse_to_run(payload: Order, run: Any) -> None:
    pytest.fail("the handler was called")
