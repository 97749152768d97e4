"""Reroute: a job whose type has moved to another lane is rung there, by the old lane's worker that may not run it.

So jobs that were submitted, retried, promoted or replayed to the old lane need nobody else: its worker meets them all.
One that may run them (it has the time, the memory and the rights) does so, and they keep their place.

During a deployment workers of two versions may each know the type on the other one's lane. A lane is therefore changed
once in a quarter of an hour at most; until then the job runs where it is, or waits there and says why.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from shared.domain.job import Job, open_key
from shared.domain.lease import as_found
from shared.domain.moves import holds
from shared.domain.outcome import Outcome
from shared.domain.states import REROUTE, RESTED, Seen
from shared.errors import MoveRefused
from shared.jobs import JobType
from shared.operations.acquire import defer_unleased, requeue, without_lease
from shared.operations.batch import FINISHING_MARGIN
from shared.ports import Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts

REST_WAIT = timedelta(minutes=1)


def reroute(message: Message, job_type: JobType, ports: WorkerPorts) -> Outcome | None:
    """Ring the job on its type's lane; how the delivery ended, or None where it may run here.

    Raises StoreUnavailable, RingRefused.
    """
    if ports.queue.serves(job_type.queue, job_type.deadline):
        return None
    lane, now = job_type.queue.name, ports.clock.now()
    changes = {"queue": lane, "open_key": open_key(lane, message.job_id), "rerouted_at": now, "queued_at": now}
    try:
        after = ports.store.apply(message.job_id, REROUTE, Seen(now=now, dispatch=message.dispatch), **changes)
    except MoveRefused as e:
        if e.found is not None and not holds(RESTED, e.found, Seen(now=now)):
            return _rests(message, job_type, ports)
        return without_lease(message, e.found, ports, lambda found: _taken_back(found, ports))
    ports.log.event(
        "rerouted", job=message.job_id, type=message.type, attempt=after.attempts, state=after.state,
        from_queue=ports.queue.name, to_queue=lane,
    )  # fmt: skip
    return Outcome.REROUTED


def _rests(message: Message, job_type: JobType, ports: WorkerPorts) -> Outcome | None:
    """Another version's worker has only just sent it here."""
    if ports.time_left() >= FINISHING_MARGIN + job_type.deadline:
        return None
    why = f"sent here by another version's worker; queue {job_type.queue.name!r} is its own, where it goes in a while"
    return defer_unleased(message, why, REST_WAIT, ports)


def _taken_back(found: Job, ports: WorkerPorts) -> Outcome:
    """Its worker vanished; this one may not take it over, but its next doorbell brings it where it belongs."""
    return requeue(found, as_found(found, ports.clock.now()), ports)
