"""Reroute: a job whose type has moved to another lane is rung there, by the old lane's worker that may not run it.

So jobs that were submitted, retried, promoted or replayed to the old lane need nobody else: its worker meets them all.
One that may run them (it has the time, the memory and the rights) does so, and they keep their place.

During a deployment workers of two versions may each know the type on the other one's lane. A lane is therefore changed
once in a quarter of an hour at most; until then the job runs where it is, or waits there and says why.
"""

from __future__ import annotations

from datetime import timedelta

from shared.domain import writes
from shared.domain.moves import holds
from shared.domain.outcome import Outcome
from shared.domain.states import RESTED, Seen
from shared.errors import MoveRefused
from shared.jobs import JobType
from shared.operations.run.delivery import Delivery

REST_WAIT = timedelta(minutes=1)


def reroute(delivery: Delivery, job_type: JobType) -> Outcome | None:
    """Ring the job on its type's lane; how the delivery ended, or None where it may run here.

    Raises StoreUnavailable, RingRefused.
    """
    invocation, bell = delivery.invocation, delivery.bell
    here, ports = invocation.lane.queue, invocation.ports
    if here.serves(job_type.queue, job_type.deadline):
        return None
    lane, now = job_type.queue.name, ports.clock.now()
    try:
        after = ports.store.apply(bell.job_id, writes.reroute(bell.job_id, bell.dispatch, lane, now))
    except MoveRefused as e:
        if e.found is not None and not holds(RESTED, e.found, Seen(now=now)):
            return _rests(delivery, job_type)
        # One whose worker vanished: this one may not take it over, but its next doorbell brings it where it belongs.
        return delivery.follow(e.found, delivery.requeue)
    ports.log.event(
        "rerouted", job=bell.job_id, type=bell.type, attempt=after.attempts, state=after.state,
        from_queue=here.name, to_queue=lane,
    )  # fmt: skip
    return Outcome.REROUTED


def _rests(delivery: Delivery, job_type: JobType) -> Outcome | None:
    """Another version's worker has only just sent it here."""
    if delivery.invocation.has_time_for(job_type.deadline):
        return None
    why = f"sent here by another version's worker; queue {job_type.queue.name!r} is its own, where it goes in a while"
    return delivery.defer(why, REST_WAIT)
