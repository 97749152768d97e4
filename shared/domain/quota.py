"""What a quota means for one more request: pure decisions, acted on by operations/admit.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BLOCKS_PER_MINUTE = 20
"""A caller's minute is taken in so many blocks: one write a block instead of one a request, and an environment that
stops in mid-block wastes a twentieth of the minute at most.
"""

LONGEST_OPEN = timedelta(days=500)
"""No job is open longer after its submit: a year ahead, its age, dead for 90 days, replayed, and its age again."""

FULL_WAIT = timedelta(minutes=1)
"""What a tenant with too much open is told to wait: jobs end when they end, nobody knows better."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a tenant has open: jobs that have not ended, and the bytes of their large payloads."""

    jobs: int
    waiting_bytes: int


@dataclass(frozen=True, slots=True)
class Over:
    """Why one more is too much, in words for the caller, and when to ask again."""

    why: str
    retry_after: timedelta


def block(per_minute: int) -> int:
    """How many requests of a minute are taken at once."""
    return max(1, per_minute // BLOCKS_PER_MINUTE)


def granted(per_minute: int, total: int, taken: int) -> int:
    """How many of the `taken` requests that brought the minute's count to `total` are within it."""
    return min(max(per_minute - (total - taken), 0), taken)


def minute_of(now: datetime) -> int:
    """The number of the minute, since the epoch."""
    return int(now.timestamp()) // 60


def over_rate(per_minute: int, now: datetime) -> Over:
    """Too many in this minute."""
    left = timedelta(seconds=60 - int(now.timestamp()) % 60)
    return Over(f"more than {per_minute} submits in this minute", left)


def over_standing(standing: Standing, jobs: int, waiting_bytes: int, asked_bytes: int) -> Over | None:
    """Whether one more job, with a large payload of `asked_bytes`, goes beyond so many jobs or bytes."""
    if standing.jobs >= jobs:
        return Over(f"{standing.jobs} jobs are open, {jobs} may be", FULL_WAIT)
    if asked_bytes and standing.waiting_bytes + asked_bytes > waiting_bytes:
        waiting = f"{standing.waiting_bytes} bytes of large payloads are waiting and {waiting_bytes} may"
        return Over(f"{waiting}; put the data into a file of your own and send its address", FULL_WAIT)
    return None


def month_of(submitted_at: datetime) -> str:
    """The month a job's count stands under, "2026-05"."""
    return f"{submitted_at.year:04}-{submitted_at.month:02}"


def forgotten_at(month: str) -> datetime:
    """When no job submitted in this month can be open any more."""
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC) + LONGEST_OPEN
