"""From kill to next start: how long each interrupted job waited, and for what."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.domain.lease import REDELIVERY_MARGIN
from tests.crash.evidence import Evidence
from tests.crash.kills import Interrupted, Kill
from tests.crash.ledger import Start

LEASE_SECONDS = 30.0
PROMISED_SECONDS = LEASE_SECONDS + 5.0
_MARGIN = REDELIVERY_MARGIN.total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """One interrupted job that started again, in seconds from the kill.

    total      to the start of its handler
    lease      what was left of the lease, and the margin after which its message shows again
    poll       from there until its process took it, or a new process was started for it
    cold       the start of that new process, to the lease
    behind     until the lease, while other interrupted jobs ran alone in that process
    handler    from the lease to the handler
    first      no other job of the same kill started earlier
    swept      its message did not show again in time: a sweep had to ring for it
    """

    job_id: str
    killed_at: float
    total: float
    lease: float
    poll: float
    cold: float
    behind: float
    handler: float
    first: bool
    swept: bool

    @property
    def waited(self) -> float:
        """From the moment its message could show to its lease."""
        return self.poll + self.cold + self.behind


def takeovers(evidence: Evidence) -> list[Takeover]:
    """Those that started again; a job that was stopped or ended instead has none."""
    found: list[Takeover] = []
    for kill in evidence.kills:
        again = [(hit, start) for hit in kill.interrupted if (start := _next_start(hit, kill, evidence)) is not None]
        earliest = min((start.at for _, start in again), default=0.0)
        found += [_takeover(hit, kill, start, start.at == earliest, evidence) for hit, start in again]
    return found


def _next_start(hit: Interrupted, kill: Kill, evidence: Evidence) -> Start | None:
    later = [start for start in evidence.starts_of(hit.job_id) if start.at > kill.at and start.run > hit.run]
    return min(later, key=lambda start: start.at, default=None)


def _takeover(hit: Interrupted, kill: Kill, start: Start, first: bool, evidence: Evidence) -> Takeover:
    shows_at = hit.lease_expires_at + _MARGIN
    waited = max(start.leased_at - shows_at, 0.0)
    cold = max(start.leased_at - max(start.spawned_at, shows_at), 0.0) if start.spawned_at > kill.at else 0.0
    behind = _covered(_others(start, evidence), shows_at, start.leased_at)
    cold = max(min(cold, waited) - behind, 0.0) if _is_first_run(start, evidence) else 0.0
    return Takeover(
        job_id=hit.job_id,
        killed_at=kill.at,
        total=start.at - kill.at,
        lease=shows_at - kill.at,
        poll=waited - cold - behind,
        cold=cold,
        behind=behind,
        handler=start.at - start.leased_at,
        first=first,
        swept=any(job_id == hit.job_id and kill.at < at < start.at for job_id, at in evidence.swept),
    )


def _is_first_run(start: Start, evidence: Evidence) -> bool:
    return all(other.at >= start.at for other in evidence.ledger.starts if other.pid == start.pid)


def _others(start: Start, evidence: Evidence) -> list[tuple[float, float]]:
    """When other jobs ran in the process that took this one."""
    ends = evidence.ledger.ends
    beside = [other for other in evidence.ledger.starts if other.pid == start.pid and other.mark != start.mark]
    return [(other.leased_at, ends[other.mark].at if other.mark in ends else start.leased_at) for other in beside]


def _covered(intervals: Iterable[tuple[float, float]], begun: float, over: float) -> float:
    """How much of the time from `begun` to `over` at least one of these covers."""
    covered, reached = 0.0, begun
    for since, until in sorted(intervals):
        since, until = max(since, reached), min(until, over)
        if until > since:
            covered, reached = covered + until - since, until
    return covered


def handover(evidence: Evidence) -> float:
    """What the platform took, in this phase, to hand a message to a worker: seconds from the ring of a job's first
    doorbell to its lease, of 95 % of the jobs. Emulator, cold starts and full lanes on this machine, whatever its load.

    Left out is what waited a whole lease: its first process was killed between receiving and leasing it.
    """
    waits = []
    for job_id, job in evidence.records.items():
        first = [start for start in evidence.starts_of(job_id) if start.run == 1]
        if job.dispatch == 1 and job.published_at is not None and first:
            waits.append(max(first[0].leased_at - job.published_at.timestamp(), 0.0))
    ordinary = [wait for wait in waits if wait < LEASE_SECONDS]
    return median_p95_max(ordinary)[1] if ordinary else 0.0


def late(found: Iterable[Takeover], platform: float) -> list[tuple[str, str]]:
    """Job id and wait of the first of each killed process that started later than promised, though its message waited
    no longer for a worker than an ordinary one does (`platform`, seconds).

    The promise is for a killed process: a lease and five seconds later it is replaced. Of several jobs killed with it
    each runs alone, one in a process, for one of them may be what killed it (docs/decisions/worker.md); how long the
    later ones wait depends on the lane's width, and is shown, not judged.
    """
    said = "started {:.1f} s after the kill; an ordinary message waits up to {:.1f} s for a worker here"
    judged = [one for one in found if one.first]
    return [
        (one.job_id, said.format(one.total, platform))
        for one in judged
        if one.total - min(one.waited, platform) > PROMISED_SECONDS
    ]


def median_p95_max(values: Sequence[float]) -> tuple[float, float, float]:
    """NaN thrice for no values; the 95th percentile is the smallest value that 95 % do not exceed."""
    if not values:
        return math.nan, math.nan, math.nan
    ranked = sorted(values)
    middle = ranked[(len(ranked) - 1) // 2] / 2 + ranked[len(ranked) // 2] / 2
    return middle, ranked[math.ceil(0.95 * len(ranked)) - 1], ranked[-1]
