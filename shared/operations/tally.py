"""Tally: count what each tenant has open, from the table's stream and off every job's path.

A batch that fails half-way comes again and is counted again: approximate, as quotas are, and forgotten with its month.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.domain.quota import month_of
from shared.domain.states import FINAL, State
from shared.ports import Counters


@dataclass(frozen=True, slots=True)
class Image:
    """What a stream record shows of a tenant's job, before or after a write."""

    tenant: str
    state: State
    created_at: datetime
    payload_bytes: int

    @property
    def is_open(self) -> bool:
        """It has not ended."""
        return self.state not in FINAL


def tally(changes: Iterable[tuple[Image | None, Image | None]], counters: Counters) -> None:
    """Count these writes, each (before, after); one write of counts per tenant and month. Raises StoreUnavailable."""
    jobs: Counter[tuple[str, str]] = Counter()
    waiting: Counter[tuple[str, str]] = Counter()
    for before, after in changes:
        for image, sign in ((before, -1), (after, 1)):
            if image is not None and image.is_open:
                key = image.tenant, month_of(image.created_at)
                jobs[key] += sign
                waiting[key] += sign * image.payload_bytes
    for key in jobs:
        if jobs[key] or waiting[key]:
            counters.count(*key, jobs[key], waiting[key])
