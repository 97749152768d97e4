"""Admit: may this caller submit one more job now? Asked before anything is stored.

Cheap: a caller's minute is taken in blocks, one write each; what a tenant has open is read every few seconds.
Approximate: a block that its environment did not use up is lost, and the counts of open jobs follow the table's stream
by seconds. Without the counts everybody is admitted: quotas protect the service, and must not be what stops it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from shared.domain.quota import Over, Standing, block, granted, minute_of, over_rate, over_standing
from shared.errors import QuotaExceeded, StoreUnavailable
from shared.ports import Clock, Counters, Log
from shared.quotas import CALLER_SUBMITS_PER_MINUTE, of_tenant

LOOK_EVERY = timedelta(seconds=5)
"""At what a tenant has open; in between, what this environment admitted is added."""

REMEMBERED = 10_000
"""Callers and tenants an environment keeps in mind; beyond it forgets them all, which costs a few writes."""


@dataclass(slots=True)
class _Minute:
    """What this environment has left of a subject's minute; `full`: all of it is given out."""

    number: int
    left: int = 0
    full: bool = False


@dataclass(slots=True)
class Admission:
    """One environment's gate. Not for threads: a Lambda environment serves one request at a time."""

    counters: Counters
    clock: Clock
    log: Log
    _minutes: dict[str, _Minute] = field(default_factory=dict)
    _standing: dict[str, tuple[datetime, Standing]] = field(default_factory=dict)

    def admit(self, *, caller: str | None, tenant: str | None, large_bytes: int) -> None:
        """Count one submit of this caller (None: unknown, not counted) for this tenant (None: nobody's).
        large_bytes: of a payload that will not fit the record, else 0. Raises QuotaExceeded.
        """
        try:
            over = self._over(caller, tenant, large_bytes)
        except StoreUnavailable as e:
            self.log.event("quota-unknown", level="warning", caller=caller, tenant=tenant, error=e)
            return
        if over is not None:
            self.log.event("quota-exceeded", level="warning", caller=caller, tenant=tenant, why=over.why)
            raise QuotaExceeded(over.why, over.retry_after)

    def _over(self, caller: str | None, tenant: str | None, large_bytes: int) -> Over | None:
        now = self.clock.now()
        rates = [(f"caller#{caller}", CALLER_SUBMITS_PER_MINUTE)] if caller is not None else []
        if tenant is not None:
            quota = of_tenant(tenant)
            standing = self._look(tenant, now)
            if (over := over_standing(standing, quota.open_jobs, quota.waiting_bytes, large_bytes)) is not None:
                return over
            rates.append((f"tenant#{tenant}", quota.submits_per_minute))
        for subject, per_minute in rates:
            if not self._take(subject, per_minute, now):
                return over_rate(per_minute, now)
        if tenant is not None:
            read_at, standing = self._standing[tenant]
            more = replace(standing, jobs=standing.jobs + 1, waiting_bytes=standing.waiting_bytes + large_bytes)
            self._standing[tenant] = read_at, more
        return None

    def _take(self, subject: str, per_minute: int, now: datetime) -> bool:
        minute = self._minutes.get(subject)
        if minute is None or minute.number != minute_of(now):
            minute = _Minute(minute_of(now))
            _remember(self._minutes, subject, minute)
        if minute.left == 0 and not minute.full:
            wanted = block(per_minute)
            minute.left = granted(per_minute, self.counters.take(subject, minute.number, wanted), wanted)
            minute.full = minute.left < wanted
        if minute.left == 0:
            return False
        minute.left -= 1
        return True

    def _look(self, tenant: str, now: datetime) -> Standing:
        read_at, standing = self._standing.get(tenant, (now - LOOK_EVERY, Standing(0, 0)))
        if now - read_at >= LOOK_EVERY:
            standing = self.counters.standing(tenant)
            _remember(self._standing, tenant, (now, standing))
        return standing


def _remember(of: dict[str, Any], name: str, value: Any) -> None:
    if len(of) >= REMEMBERED and name not in of:
        of.clear()
    of[name] = value
