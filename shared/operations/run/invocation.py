"""One invocation of a worker: what its threads share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.lease import REDELIVERY_MARGIN
from shared.domain.outcome import Outcome
from shared.domain.waits import elsewhere, hidden
from shared.jobs import JobType
from shared.operations.run.ports import Lane, WorkerPorts
from shared.operations.run.turns import Turns
from shared.operations.run.watch import Watch
from shared.ports import Measured, Message

DEFAULT_LEASE = timedelta(seconds=30)
"""How long a message is hidden whose job type is not known here."""

KEPT_TO_FINISH = timedelta(seconds=5)
"""Of the invocation, for the record, the acknowledgement and the answer."""

HIDDEN_ENOUGH = timedelta(seconds=1)
"""A message hidden no longer ago may be leased without hiding it anew: its lease is as much shorter."""


@dataclass(slots=True)
class Invocation:
    """What is watched, who may run beside whom, and what became of each message.

    time_left  of this invocation
    kept       ids of the messages that must come back · done: those that ended · leased: ids of those that leased
    """

    lane: Lane
    ports: WorkerPorts
    time_left: Callable[[], timedelta]
    kept: set[str] = field(default_factory=set)
    done: list[Message] = field(default_factory=list)
    leased: set[str] = field(default_factory=set)
    measured: list[Measured] = field(default_factory=list)
    watch: Watch = field(init=False)
    turns: Turns = field(init=False)
    _hidden_at: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = Watch(self.ports.clock)
        self.turns = Turns(lambda: self.hangs)

    @property
    def hangs(self) -> bool:
        """A handler hangs: nothing new begins, and the process ends as soon as the others have."""
        return bool(self.watch.hung)

    def type_of(self, message: Message) -> JobType | None:
        """The declaration of its job type, where this worker has one."""
        try:
            return self.lane.catalogue.get(message.type)
        except Exception:  # a file that does not import is reported where its message is delivered
            return None

    def has_time(self, message: Message) -> bool:
        """No new start beside a hung handler, nor when the deadline could not be kept before the invocation ends. A job
        that this lane may not run needs no time: see reroute.py.
        """
        job_type = self.type_of(message)
        runs_here = job_type is not None and self.lane.queue.serves(job_type.queue, job_type.deadline)
        return self.has_time_for(job_type.deadline if job_type is not None and runs_here else timedelta())

    def has_time_for(self, longest: timedelta) -> bool:
        """To begin what may take so long."""
        return not self.hangs and self.time_left() >= KEPT_TO_FINISH + longest

    def lease_hide(self, message: Message) -> timedelta:
        """How long a message is hidden while its job may be leased."""
        job_type = self.type_of(message)
        return (DEFAULT_LEASE if job_type is None else job_type.lease) + REDELIVERY_MARGIN

    def hide(self, messages: Sequence[Message]) -> None:
        """Hide these for their lease and the margin: a crash is repaired in seconds, not in six times the timeout.

        What SQS did not take is tried once more as its job is leased (`hidden_since`).
        """
        ports, begun = self.ports, self.ports.clock.now()
        unset = ports.mailbox.hide(messages, [self.lease_hide(message) for message in messages])
        now = ports.clock.now()
        since = begun if now - begun <= HIDDEN_ENOUGH else now  # a slow answer must not eat the lease
        self._hidden_at |= {message.message_id: since for message in messages if message not in unset}

    def hidden_since(self, message: Message) -> datetime:
        """Since when it is hidden for a whole lease and the margin: from there the lease counts, so that the message
        comes back no sooner than the lease may be reclaimed. One that waited for its turn is hidden anew.
        """
        now = self.ports.clock.now()
        hidden_at = self._hidden_at.get(message.message_id)
        if hidden_at is None or now - hidden_at > HIDDEN_ENOUGH:
            self.hide([message])
            return self._hidden_at.get(message.message_id, self.ports.clock.now())
        return hidden_at

    def release(self, messages: Sequence[Message], *, behind: bool = False) -> None:
        """Back to the queue, at once or nearly so; nothing was leased, so no attempt is spent. `behind` one of its key
        that stays: SQS shows them no sooner than that one, so they need no wait of their own.
        """
        if messages:
            waits = [timedelta() if behind else elsewhere(message.receives) for message in messages]
            self.come_back(messages, waits)
            self.kept |= {message.message_id for message in messages}
            self.measured += [Measured(type=message.type, outcome=Outcome.RELEASED) for message in messages]

    def come_back(self, messages: Sequence[Message], waits: Sequence[timedelta]) -> None:
        """Let each message come back after its wait, or a part of it: the record knows the rest."""
        most, kept = self.lane.queue.max_receives, self.lane.queue.message_retention
        pairs = zip(messages, waits, strict=True)
        self.ports.mailbox.hide(messages, [hidden(wait, message.receives, most, kept) for message, wait in pairs])
