"""Redrive: what an operator does to one job. Every act goes through the record; the relay rings, a worker runs.

Cancelling a running job is a request: its worker hears of it at its next progress report, or cancels where it would
have gone on; a worker that vanished is followed by whoever finds its lease lapsed.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.domain.job import LONGEST_RETENTION, Job
from shared.domain.states import CANCEL, REPLAY, REQUEST_CANCEL, Seen, State
from shared.errors import MoveRefused, PayloadMissing
from shared.operations.endings import cancel_changes, replay_changes
from shared.ports import Clock, JobStore, Log

TRIES = 4
"""Races lost in a row against workers and sweepers before the operator is told what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPorts:
    """What an operator's act needs."""

    store: JobStore
    clock: Clock
    log: Log


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
    """Send a dead, expired or cancelled job round again: fresh attempts and deadline, recorded effects kept.

    Raises MoveRefused, with what was found, for any other job; PayloadMissing when its payload is gone (replayed, it
    would only die); StoreUnavailable.
    """
    found = ports.store.get(job_id)
    if found is None:
        raise MoveRefused(job_id, REPLAY.name, None)
    changes = replay_changes(found, ports.clock.now())
    if found.payload_ref is not None and found.state in REPLAY.sources:
        # Its time to live was fixed at submit, and this job begins anew.
        payload = ports.store.get_payload(job_id, found.payload_ref)
        if payload is None:
            raise PayloadMissing(job_id)
        ports.store.put_payload(job_id, found.payload_ref, payload, changes["deadline_at"] + LONGEST_RETENTION)
    after = ports.store.apply(job_id, REPLAY, Seen(dispatch=found.dispatch), **changes)
    ports.log.event("replay-accepted", job=job_id, type=after.type, state=after.state, who=who, why=why)
    return after
