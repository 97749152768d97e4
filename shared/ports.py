"""What the operations need from the world. adapters/ has two of each: AWS's and an in-memory twin; one conformance
suite holds both to the same promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from shared.domain.doorbell import Bell
from shared.domain.job import Job, RunRecord
from shared.domain.lease import Lease
from shared.domain.outcome import Alert
from shared.domain.quota import Standing
from shared.domain.writes import Write
from shared.queues import Queue


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the caller's own table, written in the transaction that submits a job. Values: str, int, datetime."""

    table: str
    values: Mapping[str, str | int | datetime]


class JobStore(Protocol):
    """The jobs table. Every method raises StoreUnavailable when the table throttles or does not answer."""

    def submit(self, job: Job, now: datetime) -> None:
        """Write a new record. Raises AlreadySubmitted with the record that has the id, unless that one's TTL passed."""

    def submit_with(self, job: Job, rows: Sequence[Row], now: datetime) -> None:
        """Write a new record and these rows in one transaction. Raises AlreadySubmitted; then no row was written."""

    def apply(self, job_id: str, write: Write) -> Job:
        """Make one move and return the record after it. Raises MoveRefused with the record as it was found;
        ValueError when its `changes` or `seen` are not what the move takes.
        """

    def make(self, job_id: str, write: Write) -> None:
        """As `apply`, and nothing comes back: where nobody reads the record, bringing it costs as much as the write."""

    def get(self, job_id: str) -> Job | None:
        """The record, read strongly; None when there is none or its TTL has passed is for the caller to judge."""

    def due(self, shard: int, horizon: datetime) -> Iterable[str]:
        """Ids of the jobs in this shard of the `due` index due by `horizon`, the longest due first, read page by page.
        Eventually consistent: a job may be missing for a moment, or be listed after it left.
        """

    def put_payload(self, job_id: str, ref: bytes, payload: str, expires_at: datetime) -> None:
        """Store a payload too large for the record, under a digest of its text, before the record that names it. What
        stands there already may be an accepted job's: its time to live only ever grows.
        """

    def renew_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> bool:
        """Keep a stored payload until then at least; False when it is gone. Puts nothing, so a worker may do it."""

    def end_payload(self, job_id: str, ref: bytes, expires_at: datetime) -> None:
        """Let a stored payload live until then and no longer: its job is completed, and nobody will ask for it again.
        Nothing happens where it ends sooner or is gone.
        """

    def get_payload(self, job_id: str, ref: bytes) -> str | None:
        """The stored payload, read strongly; None when it is gone."""

    def record_run(self, record: RunRecord) -> None:
        """Add one run to the job's history."""

    def runs(self, job: Job) -> Sequence[RunRecord]:
        """The job's own history, oldest run first, without that of an earlier job under the same id (`own_runs`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """One doorbell to send. `attributes` are for the operator's eyes (a DLQ copy's context)."""

    bell: Bell
    group: str | None
    rung_at: datetime | None = None
    delay: timedelta = timedelta()
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unsent:
    """A doorbell that SQS did not take. `hopeless`: SQS says that the message itself is at fault, for ever."""

    ring: Ring
    why: str
    hopeless: bool


class Doorbell(Protocol):
    """The relay's side of the queues."""

    def ring(self, queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        """Send at most 10 doorbells (to the DLQ where the bell is a dead letter's; one kind per call) and return
        those that SQS did not take: SendMessageBatch answers 200 with some of its entries failed.
        """

    def park(self, record: Mapping[str, Any], why: str) -> None:
        """Put an outbox record that no relay can read into the on-failure queue, whole. Raises RingRefused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One delivered message.

    bell      None: its body is no doorbell
    receives  how often SQS has delivered it, this time included
    """

    message_id: str
    receipt: str
    body: str
    bell: Bell | None
    group: str | None
    receives: int

    @property
    def job_id(self) -> str:
        """Of the job it rings for; "" where it is no doorbell."""
        return "" if self.bell is None else self.bell.job_id

    @property
    def type(self) -> str:
        """Of that job."""
        return "" if self.bell is None else self.bell.type


class Mailbox(Protocol):
    """The worker's side of its queue. Acknowledging is the batch answer's business (ReportBatchItemFailures)."""

    def hide(self, messages: Sequence[Message], for_: Sequence[timedelta]) -> Sequence[Message]:
        """Let each message come back this long after now (0: at once). Best effort; returns those whose visibility
        could not be set: they come back by their earlier one, which costs time and nothing else.
        """

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Delete these now: the process is about to end without answering for its batch. Best effort, like `hide`."""

    def set_aside(self, message: Message, why: str) -> None:
        """A copy of a message that belongs to no job, to the DLQ. Raises RingRefused."""


class DeadLetters(Protocol):
    """The sweeper's side of the lanes' DLQs."""

    def receive(self, queue: Queue) -> Sequence[Message]:
        """At most 10 messages, hidden from every other look for some minutes; none when the DLQ is empty, or all its
        messages are hidden. Raises RingRefused.
        """

    def delete(self, queue: Queue, messages: Sequence[Message]) -> None:
        """Delete these. Best effort: what stays is found again."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """One effect of one run.

    open   this run has called it and does not know how that ended; if not, its row may be ours by a lost answer
    apply  makes a write about it and returns the record, trying again and again while the table does not answer and
           there is time; raises MoveRefused, and StoreUnavailable in the end
    make   the same, and nothing comes back
    """

    lease: Lease
    name: str
    at_most_once: bool
    open: bool
    apply: Callable[[Write], Job]
    make: Callable[[Write], None]


class Effects(Protocol):
    """Side effects recorded in the job, at most once to success."""

    def once(self, guarded: Guarded, fn: Callable[[], Any]) -> Any:
        """Run `fn` unless the record holds its outcome, and return that. Raises LeaseLost, UnknownOutcome,
        DeterministicFailure (an outcome that cannot be kept, too many effects), StoreUnavailable, or what `fn` raises:
        NotDone lets an at-most-once effect be begun again.
        """


class Counters(Protocol):
    """What quotas count, in the controls table. Every method raises StoreUnavailable."""

    def take(self, subject: str, minute: int, n: int) -> int:
        """Add n to what the subject asked for in this minute (number since the epoch); the count after that."""

    def standing(self, tenant: str) -> Standing:
        """What the tenant has open; a count that drifted below 0 reads as 0."""

    def count(self, tenant: str, month: str, jobs: int, waiting_bytes: int) -> None:
        """Add to what the tenant has open of the jobs submitted in that month ("2026-05"). Whatever a repeated count
        got wrong is forgotten with its month, once no job of it can be open any more.
        """


class Shares(Protocol):
    """The tenants' accounts of worker time, in the controls table. Every method raises StoreUnavailable."""

    def even_at(self, queue: str, tenant: str) -> datetime | None:
        """When the tenant's account on this lane will be even; None where it never was charged."""

    def charge(self, queue: str, tenant: str, started_at: datetime, by: timedelta) -> None:
        """Move it by so much, counted from `started_at` where it was even by then (domain/share.py: `charged`)."""


class Meter(Protocol):
    """Counts and durations."""

    def emit(self, queue: str, counted: Sequence[Measured]) -> None:
        """Publish what a batch came to, once at its end, from one thread."""

    def alert(self, alert: Alert, *, queue: str, type: str, job: str) -> None:
        """Tell of one job, at once, from any thread. Do so before the write that ends it: a crash between the two then
        tells twice, where the other order would tell nobody.
        """


class Links(Protocol):
    """Short-lived links to job files, for the API."""

    def link(self, key: str, lifetime: timedelta, version: str | None = None) -> str:
        """A URL that anyone may GET for that long (SigV4, virtual-hosted on AWS): the file of that version, or the
        latest. Never checks that the file exists.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One delivery: how it ended and, for a run, how long it took and how long its job had waited for it."""

    type: str
    outcome: str
    tenant: str | None = None
    attempt: int = 0
    reclaimed: bool = False
    ran: timedelta | None = None
    since_submit: timedelta | None = None


class Clock(Protocol):
    """The time, as an argument."""

    def now(self) -> datetime:
        """The present instant, aware, UTC."""


class Log(Protocol):
    """Structured events; every line of a job carries its id, type, attempt and state."""

    def event(self, name: str, /, *, level: str = "info", error: BaseException | None = None, **fields: Any) -> None:
        """One line. `level`: debug, info, warning, error."""
