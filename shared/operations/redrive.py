"""Redrive: what an operator does to one job. Every act goes through the record; the relay rings, a worker runs.

Cancelling a running job is a request: its worker hears of it at its next progress report, or cancels where it would
have gone on; a worker that vanished is followed by whoever finds its lease lapsed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.domain import writes
from shared.domain.job import Job
from shared.domain.states import CANCEL, REPLAY, State
from shared.errors import MoveRefused, PayloadMissing
from shared.operations.mend import keep_payload
from shared.ports import Clock, JobStore, Log

TRIES = 4
"""Races lost in a row against workers and sweepers before the operator is told what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPorts:
    """What an operator's act needs. lane_of: the queue that a job type is declared for, None: it is not known."""

    store: JobStore
    clock: Clock
    log: Log
    lane_of: Callable[[str], str | None] = lambda _: None


def cancel(job_id: str, who: str, why: str, ports: OperatorPorts) -> Job:
    """Cancel a job, or ask the worker that runs it to stop; returns the record after that.

    Raises MoveRefused, with what was found, for a job that has ended (a dead one can be cancelled) or is unknown, and
    when it moves faster than it can be caught; StoreUnavailable.
    """
    request = {"who": who, "why": why}
    for _ in range(TRIES):
        found = ports.store.get(job_id)
        if found is None:
            raise MoveRefused(job_id, CANCEL.name, None)
        now = ports.clock.now()
        try:
            running = found.state is State.RUNNING
            write = writes.request_cancel(request) if running else writes.cancel(found, request, now)
            after = ports.store.apply(job_id, write)
        except MoveRefused as e:
            refused = e
            continue
        ports.log.event("cancel-accepted", job=job_id, type=after.type, state=after.state, who=who, why=why)
        return after
    raise refused


def replay(job_id: str, who: str, why: str, ports: OperatorPorts) -> Job:
    """Send a dead, expired or cancelled job round again: fresh attempts and deadline, recorded effects kept; on the
    lane that its type is declared for now.

    Raises MoveRefused, with what was found, for any other job; PayloadMissing when its payload is gone (replayed, it
    would only die); StoreUnavailable.
    """
    found = ports.store.get(job_id)
    if found is None:
        raise MoveRefused(job_id, REPLAY.name, None)
    write = writes.replay(found, ports.lane_of(found.type), ports.clock.now())
    if found.state in REPLAY.sources and not keep_payload(found, write.changes["deadline_at"], ports.store):
        raise PayloadMissing(job_id)
    after = ports.store.apply(job_id, write)
    ports.log.event("replay-accepted", job=job_id, type=after.type, state=after.state, who=who, why=why)
    return after
