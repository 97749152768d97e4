"""Batch: what one invocation's threads share, and each delivery's place in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared.domain.lease import REDELIVERY_MARGIN
from shared.domain.outcome import Outcome
from shared.domain.waits import elsewhere, hidden
from shared.jobs import JobType
from shared.operations.turns import Turns
from shared.operations.watch import Watch
from shared.ports import Measured, Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts

DEFAULT_LEASE = timedelta(seconds=30)
FINISHING_MARGIN = timedelta(seconds=5)
"""Kept of the invocation for the record, the acknowledgement and the answer."""

NO_TIME_WAIT = timedelta(seconds=30)
"""A suspect waited for its neighbours until too little time was left: the next invocation is another one."""

TRIES_ELSEWHERE = 8
"""Receives up to which a suspect looks for a process with room. Then it is requeued, and its new doorbell says what it
is; on a FIFO lane, where it would lose its place, it waits for the healthy jobs beside it.
"""

HIDDEN_ENOUGH = timedelta(seconds=1)
"""A message hidden no longer ago may be leased without hiding it anew: its lease is as much shorter."""


@dataclass(slots=True)
class Batch:
    """One invocation's state: what is watched, what each message came to, which of them leased their job, and since
    when each is hidden.
    """

    watch: Watch
    kept: set[str] = field(default_factory=set)
    done: list[Message] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    hidden_at: dict[str, datetime] = field(default_factory=dict)
    leased: set[str] = field(default_factory=set)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.turns = Turns(lambda: bool(self.watch.hung))

    def hide(self, messages: Sequence[Message], ports: WorkerPorts) -> None:
        """Hide these for their lease and the margin: a crash is repaired in seconds, not in six times the timeout.

        What SQS did not take is tried once more as its job is leased (`Place.hidden_since`).
        """
        begun = ports.clock.now()
        unset = ports.mailbox.hide(messages, [lease_hide(message, ports) for message in messages])
        now = ports.clock.now()
        since = begun if now - begun <= HIDDEN_ENOUGH else now  # a slow answer must not eat the lease
        self.hidden_at |= {message.message_id: since for message in messages if message not in unset}

    def release(self, messages: Sequence[Message], ports: WorkerPorts, *, behind: bool = False) -> None:
        """Back to the queue, at once or nearly so; nothing was leased, so no attempt is spent. `behind` one of its key
        that stays: SQS shows them no sooner than that one, so they need no wait of their own.
        """
        if messages:
            waits = [timedelta() if behind else elsewhere(message.receives) for message in messages]
            come_back(messages, waits, ports)
            self.kept |= {message.message_id for message in messages}
            self.measured += [Measured(type=message.type, outcome=Outcome.RELEASED) for message in messages]


def come_back(messages: Sequence[Message], waits: Sequence[timedelta], ports: WorkerPorts) -> None:
    """Let each message come back after its wait, or a part of it: the record knows the rest."""
    most, kept = ports.queue.max_receives, ports.queue.message_retention
    pairs = zip(messages, waits, strict=True)
    ports.mailbox.hide(messages, [hidden(wait, message.receives, most, kept) for message, wait in pairs])


@dataclass(frozen=True, slots=True)
class Place:
    """One delivery's place in its batch and its process."""

    message: Message
    batch: Batch
    ports: WorkerPorts

    def alone(self) -> timedelta | None:
        """Have the process to itself, before a job whose worker vanished is started again. None: it has; else there is
        no room, and the message shall wait this long: not at all where others are in the way, for another process to
        take it.
        """
        if not self.batch.turns.alone(waits=self.ports.queue.fifo and self.message.receives > TRIES_ELSEWHERE):
            return timedelta()
        return None if self.has_time(suspect=True) else NO_TIME_WAIT

    def hidden_since(self) -> datetime:
        """Since when the message is hidden for a whole lease and the margin: from there the lease counts, so that the
        message comes back no sooner than the lease may be reclaimed. One that waited for its turn is hidden anew.
        """
        now = self.ports.clock.now()
        hidden_at = self.batch.hidden_at.get(self.message.message_id)
        if hidden_at is None or now - hidden_at > HIDDEN_ENOUGH:
            self.batch.hide([self.message], self.ports)
            return self.batch.hidden_at.get(self.message.message_id, self.ports.clock.now())
        return hidden_at

    def has_time(self, *, suspect: bool = False) -> bool:
        """No new start beside a hung handler, nor when the deadline could not be kept before the invocation ends. A job
        that this lane may not run needs no time: see reroute.py.

        A suspect, which has waited for its neighbours, is content with its lease: its deadline is what is left then,
        and once it has failed at that it is no suspect any more.
        """
        job_type = _type_of(self.message, self.ports)
        runs_here = job_type is not None and self.ports.queue.serves(job_type.queue, job_type.deadline)
        longest = job_type.deadline if job_type is not None and runs_here else timedelta()
        if suspect and job_type is not None:
            longest = min(longest, job_type.lease)
        return not self.batch.watch.hung and self.ports.time_left() >= FINISHING_MARGIN + longest


def lease_hide(message: Message, ports: WorkerPorts) -> timedelta:
    """How long a message is hidden while its job may be leased."""
    job_type = _type_of(message, ports)
    return (DEFAULT_LEASE if job_type is None else job_type.lease) + REDELIVERY_MARGIN


def _type_of(message: Message, ports: WorkerPorts) -> JobType | None:
    try:
        return ports.catalogue.get(message.type)
    except Exception:  # a file that does not import is said where its message is delivered
        return None
