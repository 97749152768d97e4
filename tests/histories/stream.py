"""The jobs table's stream, as far as the relay's filter lets it through."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.job import Job

SHARDS = 2
STREAM_RETENTION = timedelta(hours=24)


@dataclass(eq=False)
class Pending:
    """A record in the stream."""

    name: str
    shard: int
    job: Job
    written_at: datetime
    sequence: int


@dataclass
class Stream:
    """Records that the relay's filter lets through, in order; those it has had, for a second delivery."""

    pending: list[Pending] = field(default_factory=list)
    had: list[Pending] = field(default_factory=list)

    def done(self, record: Pending) -> None:
        """Its relay returned."""
        if record in self.pending:
            self.pending.remove(record)
            self.had.append(record)

    def add(self, record: Pending) -> None:
        """In its place."""
        self.pending.append(record)
        self.pending.sort(key=lambda one: one.sequence)

    def expire(self, now: datetime) -> None:
        """What DynamoDB keeps no longer."""
        self.pending = [one for one in self.pending if now - one.written_at <= STREAM_RETENTION]
        self.had = [one for one in self.had if now - one.written_at <= STREAM_RETENTION]

    def of(self, shard: int) -> list[Pending]:
        """What waits in this shard."""
        return [one for one in self.pending if one.shard == shard]
