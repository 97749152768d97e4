"""Deliver: one message to its end, whatever it rings for."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.doorbell import Bell
from shared.domain.job import Job
from shared.domain.outcome import Alert, Outcome
from shared.domain.waits import unready
from shared.errors import MoveRefused, RingRefused, StoreUnavailable
from shared.jobs import JobType
from shared.operations.run.delivery import Delivery
from shared.operations.run.execute import execute
from shared.operations.run.invocation import Invocation
from shared.operations.run.reroute import reroute
from shared.ports import Measured, Message

UNKNOWN_TYPE_WAIT = timedelta(minutes=1)
ABOVE_SHARE = "its tenant has used more than its share of this lane; it waits for its turn"


def deliver(message: Message, invocation: Invocation) -> Outcome | None:
    """One message to its end; never raises. What could not be done now is left to the message's return. None: the
    handler was fenced meanwhile, and the watch has its outcome.
    """
    log = invocation.ports.log
    try:
        return _in_turn(message, invocation)
    except MoveRefused as e:
        found = e.found
        state, holder = (found.state, found.holder) if found else ("gone", None)
        log.event("lease-lost", job=message.job_id, type=message.type, state=state, found_holder=holder)
        outcome = Outcome.LEASE_LOST
    except (StoreUnavailable, RingRefused) as e:
        log.event("unavailable", level="warning", job=message.job_id, type=message.type, error=e)
        outcome = _unready(message, invocation)
    except Exception as e:  # a surprise (a right that is missing, a record nobody can read) stays with its message
        log.event("surprise", level="error", job=message.job_id, type=message.type, error=e)
        outcome = _unready(message, invocation, surprise=True)
    invocation.measured.append(Measured(type=message.type, outcome=outcome))
    return outcome


def _unready(message: Message, invocation: Invocation, *, surprise: bool = False) -> Outcome:
    """Nothing can be done about this job now: its message comes back with its lease, and ever later while that goes on.
    What is no absence of the table ends in the DLQ some day, for a human: nothing else would stop it.
    """
    wait = unready(message.receives)
    if message.message_id not in invocation.leased and wait > invocation.lease_hide(message):
        if surprise:
            invocation.ports.mailbox.hide([message], [wait])
        else:
            invocation.come_back([message], [wait])
    return Outcome.UNAVAILABLE


def _in_turn(message: Message, invocation: Invocation) -> Outcome | None:
    if not invocation.turns.beside():
        invocation.release([message])
        return Outcome.RELEASED
    try:
        if not invocation.has_time(message):  # it may have waited for its turn
            invocation.release([message])
            return Outcome.RELEASED
        return _delivered(message, invocation)
    finally:
        invocation.turns.done()


def _delivered(message: Message, invocation: Invocation) -> Outcome | None:
    if message.bell is None:
        outcome = _set_aside(message, invocation)
    else:
        job_type, why_not = _known(message, message.bell, invocation)
        delivery = Delivery(message, message.bell, invocation)
        leased = _leased(delivery, job_type) if job_type is not None else _left_for_another(delivery, why_not)
        if isinstance(leased, Job) and job_type is not None:
            invocation.leased.add(message.message_id)
            return execute(leased, message, job_type, invocation)
        assert isinstance(leased, Outcome)  # only a known type is leased
        outcome = leased
    invocation.measured.append(Measured(type=message.type, outcome=outcome))
    return outcome


def _leased(delivery: Delivery, job_type: JobType) -> Job | Outcome:
    """The job to run here, or how the delivery ended: rung on another lane, waiting for its tenant's turn, …"""
    ports = delivery.invocation.ports
    if (moved := reroute(delivery, job_type)) is not None:
        return moved
    if (above := ports.share.wait(delivery.bell.tenant, ports.dice())) is not None:
        return delivery.defer(ABOVE_SHARE, above)
    return delivery.lease(job_type)


def _left_for_another(delivery: Delivery, why: str) -> Outcome:
    # On a FIFO lane all of it by one message; elsewhere a fresh one soon counts anew.
    longer = unready(delivery.message.receives) if delivery.invocation.lane.queue.fifo else timedelta()
    return delivery.defer(why, max(UNKNOWN_TYPE_WAIT, longer))


def _set_aside(message: Message, invocation: Invocation) -> Outcome:
    invocation.ports.mailbox.set_aside(message, "its body is no doorbell")
    log = invocation.ports.log
    log.event("orphaned", level="error", job="", message_id=message.message_id, length=len(message.body))
    return Outcome.ORPHANED


def _known(message: Message, bell: Bell, invocation: Invocation) -> tuple[JobType | None, str]:
    """The job type, or why this worker cannot run it now: during a deployment the next one can, so nothing dies. But a
    person hears of it, since a job that only ever waits ends without a word.
    """
    ports, lane = invocation.ports, invocation.lane
    try:
        job_type = lane.catalogue.get(bell.type)
    except Exception as e:  # a user's file that does not import must not take its neighbours down
        ports.log.event("job-type-unusable", level="error", job=message.job_id, type=bell.type, error=e)
        why, alert = f"job type {bell.type!r} cannot be loaded ({type(e).__name__})", Alert.TYPE_NOT_LOADED
    else:
        if job_type is not None and bell.payload_version <= job_type.version:
            return job_type, ""
        why, alert = f"this worker knows no job type {bell.type!r}", Alert.TYPE_NOT_KNOWN
        if job_type is not None:
            why = f"payload version {bell.payload_version} is newer than this worker's {job_type.version}"
    ports.meter.alert(alert, queue=lane.queue.name, type=bell.type, job=message.job_id)
    return None, why
