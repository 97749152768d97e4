"""What was seen of each job: its runs, its effects, the calls of its handlers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.domain.job import Job
from tests.histories.kinds import Kind
from tests.histories.threads import Process


@dataclass(frozen=True)
class Broken:
    """A promise that did not hold."""

    promise: str
    detail: str


@dataclass(eq=False)
class Run:
    """One lease of a job. `started`: its handler was called; `said`: it ended by its own word; `suspect`: the run
    before it ended without one.
    """

    number: int
    holder: str
    process: Process
    suspect: bool
    started: bool = False
    finished: bool = False
    said: bool = False


@dataclass(eq=False)
class Handling:
    """One call of a handler."""

    run: int
    handle: Any
    process: Process
    over: bool = False

    @property
    def holds_the_job(self) -> bool:
        """It runs, inside its lease, by its own clock. One that was fenced has given its lease up."""
        ends_at: datetime = self.handle.held.expires_at
        gone = self.over or self.process.dead or self.handle.held.closed
        return not gone and self.process.world.now + self.process.skew < ends_at


@dataclass(eq=False)
class Life:
    """One record, from its submission to its TTL. `leases`: by the message that brought them."""

    kind: Kind
    runs: dict[int, Run] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    leases: Counter[str] = field(default_factory=Counter)
    called: list[tuple[str, int]] = field(default_factory=list)
    handlings: list[Handling] = field(default_factory=list)
    replayed_after: int = 0
    cancel_asked: bool = False

    @property
    def silent(self) -> int:
        """How many runs in a row ended without a word, the last one counted, since the last replay."""
        count = 0
        for number in sorted(self.runs, reverse=True):
            if self.runs[number].said or number <= self.replayed_after:
                break
            count += 1
        return count

    def vanished(self, count: int) -> bool:
        """Something happened to the processes of this many last runs, so that they ended without a word."""
        last = [self.runs[number] for number in sorted(self.runs) if number > self.replayed_after][-count:]
        return all(run.process.struck for run in last)

    @property
    def troubled(self) -> bool:
        """Something happened to a process that ran it."""
        return any(run.process.struck for run in self.runs.values())


def record(job: Job) -> str:
    """The record in a few words."""
    more = f" stalls {job.stalls}" if job.stalls else ""
    more += f" outbox {job.outbox}" if job.outbox else ""
    return f"{job.state} run {job.run} dispatch {job.dispatch} attempts {job.attempts}/{job.max_attempts}{more}"
