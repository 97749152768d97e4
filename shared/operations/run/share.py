"""Share: what one tenant may take of a lane that declares a share, so that forty slow receivers of one do not stop the
webhooks of all.

Read at most once a second per tenant and environment, charged once per batch and tenant, after the runs: a tenant may
overdraw by what runs at once. Nobody waits for want of an account: without it the lane runs as if it had none.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.domain.share import wait_above
from shared.errors import StoreUnavailable
from shared.ports import Clock, Log, Shares
from shared.queues import Queue

LOOK_EVERY = timedelta(seconds=1)
REMEMBERED = 1_000


@dataclass(slots=True)
class LaneShare:
    """One environment's view of its lane's accounts; threads share it."""

    queue: Queue
    shares: Shares
    clock: Clock
    log: Log
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, tuple[datetime, datetime | None]] = field(default_factory=dict)

    def wait(self, tenant: str | None, jitter: float) -> timedelta | None:
        """How long a job of this tenant waits before it may be leased; None: it may now."""
        if self.queue.tenant_share is None or tenant is None:
            return None
        now = self.clock.now()
        return wait_above(self._even_at(tenant, now), now, jitter)

    def charge(self, started_at: datetime, ran: Mapping[str, timedelta]) -> None:
        """What the runs of a batch that began at `started_at` took, by tenant."""
        if self.queue.tenant_share is None:
            return
        for tenant, time in ran.items():
            try:
                self.shares.charge(self.queue.name, tenant, started_at, time / self.queue.tenant_share)
            except StoreUnavailable as e:
                self.log.event("share-not-charged", level="warning", job="", tenant=tenant, error=e)
        with self._lock:
            for tenant in ran:
                self._known.pop(tenant, None)

    def _even_at(self, tenant: str, now: datetime) -> datetime | None:
        with self._lock:
            read_at, even_at = self._known.get(tenant, (now - LOOK_EVERY, None))
            if now - read_at < LOOK_EVERY:
                return even_at
            try:
                even_at = self.shares.even_at(self.queue.name, tenant)
            except StoreUnavailable as e:
                self.log.event("share-unknown", level="warning", job="", tenant=tenant, error=e)
                even_at = None
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[tenant] = now, even_at
            return even_at
