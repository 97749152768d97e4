"""A tenant's share of a lane, in worker time: pure arithmetic, acted on by operations/run/share.py.

Each tenant has an account that empties by itself, at `share` seconds a second, and is charged what its runs took. It is
kept as one instant, `even_at`, when it will be empty (a leaky bucket written as its end). Counting what runs at this
moment would not do: a lane that delivers in order hands a slot that becomes free to the tenant with the longest line.
"""

from __future__ import annotations

from datetime import datetime, timedelta

TOLERANCE = timedelta(seconds=2)
"""How far ahead an account may be before its tenant waits: a burst of short jobs passes."""

LONGEST_WAIT = timedelta(minutes=1)
"""Of one deferral: longer, and the job would leave its message, and its place in a FIFO lane."""


def charged(even_at: datetime | None, started_at: datetime, ran: timedelta, share: int) -> datetime:
    """When the account will be even after runs that began at `started_at` and took `ran` in all."""
    return max(even_at or started_at, started_at) + ran / share


def wait_above(even_at: datetime | None, now: datetime, jitter: float) -> timedelta | None:
    """How long a job of the tenant waits; None while it is within its share. jitter: a dice throw in [0, 1), which
    spreads the return over as long again, so that a hundred jobs do not come back for one slot.
    """
    ahead = timedelta() if even_at is None else even_at - now
    return None if ahead <= TOLERANCE else min(ahead * (1 + jitter), LONGEST_WAIT)
