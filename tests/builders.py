"""Records, messages and worlds for tests; only what a test names is said there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.domain.doorbell import Bell
from shared.domain.job import Job, open_key, random_job_id
from shared.domain.outcome import Alert
from shared.domain.states import OUTBOX_OPEN, State
from shared.ports import Measured, Message, Ring, Unsent
from shared.queues import Queue

BELL = frozenset(Bell.__dataclass_fields__)
NOW = datetime(2026, 5, 31, 12, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def a_minute_left() -> timedelta:
    """A relay's invocation that has only begun."""
    return MINUTE


def a_job(**fields: Any) -> Job:
    """A freshly submitted job, with these fields changed."""
    job_id = fields.pop("job_id", None) or random_job_id(NOW, secrets.token_bytes(10))
    values: dict[str, Any] = {
        "type": "invoice-export",
        "queue": "exports.month-end",
        "state": State.QUEUED,
        "tenant": "acme-eu",
        "payload": '{"tenantId":"acme-eu","month":"2026-05"}',
        "payload_version": 1,
        "created_at": NOW,
        "run_at": NOW,
        "available_at": NOW,
        "deadline_at": NOW + timedelta(hours=24),
        "max_age_seconds": 24 * 3600,
        "max_attempts": 6,
        "fingerprint": bytes(16),
        "dispatch": 1,
        "outbox": OUTBOX_OPEN,
    }
    values |= fields
    return Job(job_id=job_id, open_key=open_key(values["queue"], job_id), **values)


def a_running_job(**fields: Any) -> Job:
    """A job in its first run, leased until NOW + 30 s."""
    lease = {
        "state": State.RUNNING,
        "run": 1,
        "attempts": 1,
        "holder": "holder-1",
        "lease_expires_at": NOW + timedelta(seconds=30),
        "started_at": NOW,
        "outbox": None,
        "published_at": NOW,
    }
    return a_job(**(lease | fields))


def a_message(job: Job, **fields: Any) -> Message:
    """The current doorbell of a job, as delivered; fields of its bell ("suspect", "dispatch") may be others."""
    said = {"job_id": job.job_id, "dispatch": job.dispatch, "type": job.type, "payload_version": job.payload_version}
    bell = Bell(**(said | {name: fields.pop(name) for name in list(fields) if name in BELL}))
    values: dict[str, Any] = {
        "message_id": secrets.token_hex(8),
        "receipt": secrets.token_hex(8),
        "body": bell.body(),
        "bell": bell,
        "group": None,
        "receives": 1,
    }
    return Message(**(values | fields))


def saying(message: Message, **fields: Any) -> Message:
    """The same message, with another bell."""
    assert message.bell is not None
    bell = replace(message.bell, **fields)
    return replace(message, bell=bell, body=bell.body())


@dataclass
class TestClock:
    """A clock that moves when told."""

    __test__ = False
    at: datetime = NOW

    def now(self) -> datetime:
        return self.at

    def forward(self, by: timedelta) -> None:
        self.at += by


@dataclass
class RecordedLog:
    """Keeps every line."""

    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def event(self, name: str, /, *, level: str = "info", error: BaseException | None = None, **fields: Any) -> None:
        self.lines.append((name, {"level": level, "error": error, **fields}))

    def names(self) -> list[str]:
        return [name for name, _ in self.lines]


@dataclass
class RecordedMeter:
    """Keeps what every batch came to, and what a person was told of."""

    batches: list[tuple[str, list[Measured]]] = field(default_factory=list)
    alerts: list[tuple[Alert, str]] = field(default_factory=list)

    def emit(self, queue: str, counted: Sequence[Measured]) -> None:
        self.batches.append((queue, list(counted)))

    def alert(self, alert: Alert, *, queue: str, type: str, job: str) -> None:
        self.alerts.append((alert, job))

    def outcomes(self) -> list[str]:
        return [one.outcome for _, counted in self.batches for one in counted]


@dataclass
class MemoryMailbox:
    """A mailbox that shows when each message would come back."""

    hidden: dict[str, timedelta] = field(default_factory=dict)
    hides: list[tuple[str, timedelta]] = field(default_factory=list)
    orphans: list[tuple[Message, str]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self.acknowledged += [message.message_id for message in messages]

    def hide(self, messages: Sequence[Message], for_: Sequence[timedelta]) -> Sequence[Message]:
        for message, wait in zip(messages, for_, strict=True):
            self.hidden[message.message_id] = wait
            self.hides.append((message.message_id, wait))
        return ()

    def set_aside(self, message: Message, why: str) -> None:
        self.orphans.append((message, why))


@dataclass
class MemoryDoorbell:
    """Queues in lists; `refuse` says what SQS does with a ring: None takes it."""

    sent: list[tuple[str, Ring]] = field(default_factory=list)
    parked: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)
    refuse: Callable[[Ring], Unsent | None] = lambda _: None

    def ring(self, queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        assert 1 <= len(rings) <= 10
        assert len({ring.bell.dead_letter for ring in rings}) == 1
        self.calls.append((queue.name, len(rings)))
        unsent = []
        for ring in rings:
            refusal = self.refuse(ring)
            if refusal is None:
                self.sent.append((queue.name, ring))
            else:
                unsent.append(refusal)
        return unsent

    def park(self, record: Mapping[str, Any], why: str) -> None:
        self.parked.append((record, why))


@dataclass
class MemoryDeadLetters:
    """A DLQ as a list; a look shows each message once, ten at a time, until `next_look`."""

    standing: list[Message] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)

    def receive(self, queue: Queue) -> Sequence[Message]:
        unseen = [message for message in self.standing if message.message_id not in self.shown][:10]
        self.shown |= {message.message_id for message in unseen}
        return unseen

    def delete(self, queue: Queue, messages: Sequence[Message]) -> None:
        gone = {message.message_id for message in messages}
        self.standing = [message for message in self.standing if message.message_id not in gone]

    def next_look(self) -> None:
        self.shown.clear()
