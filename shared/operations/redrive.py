"""Redrive: what an operator does to one job. Every act goes through the record; the relay rings, a worker runs.

Cancelling a running job is a request: its worker hears of it at its next progress report, or cancels where it would
have gone on; a worker that vanished is followed by whoever finds its lease lapsed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.domain.job import Job
from shared.domain.states import CANCEL, REPLAY, REQUEST_CANCEL, Seen, State
from shared.errors import MoveRefused, PayloadMissing
from shared.operations.endings import cancel_changes, renew_payload, replay_changes
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
            if found.state is State.RUNNING:
                after = ports.store.apply(job_id, REQUEST_CANCEL, Seen(), cancel_request=request)
            else:
                after = ports.store.apply(job_id, CANCEL, Seen(dispatch=found.dispatch), **cancel_changes(request, now))
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
    changes = replay_changes(found, ports.clock.now(), ports.lane_of(found.type))
    if found.state in REPLAY.sources and not renew_payload(found, changes["deadline_at"], ports.store):
        raise PayloadMissing(job_id)
    after = ports.store.apply(job_id, REPLAY, Seen(dispatch=found.dispatch), **changes)
    ports.log.event("replay-accepted", job=job_id, type=after.type, state=after.state, who=who, why=why)
    return after
