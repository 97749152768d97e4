"""Run: lease, execute, record, acknowledge. The worker is a lease manager; the handler is the smallest part of it.

The order of the writes is the guarantee:

    1 lease        a crash after it: the message comes back, finds the lease lapsed, and the job is reclaimed
    2 effect       a crash after it: the rerun repeats the effect under the same key or name, which converges it
    3 record       a crash after it: the message comes back, finds the job final or its dispatch newer, runs nothing
    4 acknowledge

Every write after the lease carries its run number and holder, so a worker whose job was reclaimed can write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.job import Job
from shared.domain.lease import REDELIVERY_MARGIN, Lease
from shared.domain.outcome import Outcome
from shared.domain.run import Files, StoredFile
from shared.domain.states import State
from shared.errors import DeterministicFailure, LeaseLost, MoveRefused, RingRefused, StoreUnavailable
from shared.jobs import Catalogue, JobType
from shared.operations.acquire import acquire, defer_unleased
from shared.operations.progress import CancelRequested, RunHandle
from shared.operations.settle import Settlement
from shared.ports import Clock, JobStore, Log, Mailbox, Message
from shared.queues import Queue

DEFAULT_LEASE = timedelta(seconds=30)
UNKNOWN_TYPE_WAIT = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPorts:
    """What a worker needs. dice: uniform in [0, 1) · token: a fresh secret per lease."""

    queue: Queue
    store: JobStore
    mailbox: Mailbox
    files: Files
    catalogue: Catalogue
    clock: Clock
    log: Log
    code_version: str
    dice: Callable[[], float]
    token: Callable[[], str]


def run_batch(messages: Sequence[Message], ports: WorkerPorts) -> list[str]:
    """Run every job of a batch; returns the ids of the messages that must not be deleted. Never raises for a job.

    Standard lane: all side by side. FIFO lane: one after the other within a group; behind one that stays, the rest
    of its group is released unstarted, which keeps the order.
    """
    ports.mailbox.hide(messages, [_lease_of(m, ports) + REDELIVERY_MARGIN for m in messages])
    groups: dict[str, list[Message]] = {}
    for message in messages:
        in_order = ports.queue.fifo and message.group is not None
        groups.setdefault(f"g:{message.group}" if in_order else f"m:{message.message_id}", []).append(message)
    if len(groups) == 1:  # no thread to start for the usual lone message
        kept = [_run_group(group, ports) for group in groups.values()]
    else:
        with ThreadPoolExecutor(ports.queue.parallelism) as pool:
            kept = list(pool.map(lambda group: _run_group(group, ports), groups.values()))
    failed = {message_id for ids in kept for message_id in ids}
    return [message.message_id for message in messages if message.message_id in failed]


def _run_group(group: Sequence[Message], ports: WorkerPorts) -> list[str]:
    for place, message in enumerate(group):
        if place:  # the batch's first visibility ran on while its forerunners worked
            ports.mailbox.hide([message], [_lease_of(message, ports) + REDELIVERY_MARGIN])
        if not deliver(message, ports).acknowledged:
            rest = group[place + 1 :]
            if rest:
                ports.mailbox.hide(rest, [timedelta()] * len(rest))
            return [m.message_id for m in group[place:]]
    return []


def deliver(message: Message, ports: WorkerPorts) -> Outcome:
    """One message to its end; never raises. What could not be done now is left to the message's return."""
    try:
        return _deliver(message, ports)
    except MoveRefused as e:
        found = e.found
        state, holder = (found.state, found.holder) if found else ("gone", None)
        ports.log.event("lease-lost", job=message.job_id, type=message.type, state=state, found_holder=holder)
        return Outcome.LEASE_LOST
    except (StoreUnavailable, RingRefused) as e:
        ports.log.event("unavailable", level="warning", job=message.job_id, type=message.type, error=e)
    except Exception as e:  # a surprise (a right that is missing, a record nobody can read) stays with its message
        ports.log.event("surprise", level="error", job=message.job_id, type=message.type, error=e)
    return Outcome.UNAVAILABLE


def _deliver(message: Message, ports: WorkerPorts) -> Outcome:
    if not message.job_id:
        ports.mailbox.set_aside(message, "its body is no doorbell")
        ports.log.event("orphaned", level="error", job="", message_id=message.message_id, body=message.body[:200])
        return Outcome.ORPHANED
    job_type, why_not = _known(message, ports)
    if job_type is None:
        return defer_unleased(message, why_not, UNKNOWN_TYPE_WAIT, ports)
    leased = acquire(message, job_type, ports)
    return leased if isinstance(leased, Outcome) else _execute(leased, message, job_type, ports)


def _known(message: Message, ports: WorkerPorts) -> tuple[JobType | None, str]:
    """The job type, or why this worker cannot run it now: during a deployment the next one can, so nothing dies."""
    try:
        job_type = ports.catalogue.get(message.type)
    except Exception as e:  # a user's file that does not import must not take its neighbours down
        ports.log.event("job-type-unusable", level="error", job=message.job_id, type=message.type, error=e)
        return None, f"job type {message.type!r} cannot be loaded: {type(e).__name__}: {e}"[:200]
    if job_type is None:
        return None, f"this worker knows no job type {message.type!r}"
    if message.payload_version > job_type.version:
        return None, f"payload version {message.payload_version} is newer than this worker's {job_type.version}"
    return job_type, ""


def _execute(job: Job, message: Message, job_type: JobType, ports: WorkerPorts) -> Outcome:
    lease = Lease(job.job_id, job.run, job.holder or "")
    handle = RunHandle(job, lease, message, job_type, ports)
    settlement = Settlement(job, lease, message, job_type, handle, ports)
    settlement.say(State.RUNNING)
    try:
        result = _effect(job, job_type, handle, ports.store)
    except LeaseLost:
        raise
    except CancelRequested:
        return settlement.cancel()
    except (Exception, SystemExit) as e:  # whatever a handler raises is its job's failure, never the batch's
        return settlement.fail(e)
    finally:
        handle.close()
    return settlement.complete(result)


def _effect(job: Job, job_type: JobType, handle: RunHandle, store: JobStore) -> StoredFile | None:
    if job.payload_version != job_type.version:
        raise DeterministicFailure(
            f"payload version {job.payload_version} is not one this worker knows ({job_type.version})",
            code="payload-version-unsupported",
        )
    payload = job.payload if job.payload is not None else store.get_payload(job.job_id, job.fingerprint)
    if payload is None:
        raise DeterministicFailure("the stored payload is gone", code="payload-missing")
    result = job_type.handler(job_type.parse(payload), handle)
    if result is not None and not isinstance(result, StoredFile):
        raise DeterministicFailure(
            f"the handler returned a {type(result).__name__}; return a StoredFile or None", code="result-invalid"
        )
    if result is None and job_type.requires_result:
        raise DeterministicFailure("the handler returned no result, which its type requires", code="result-missing")
    return result


def _lease_of(message: Message, ports: WorkerPorts) -> timedelta:
    try:
        job_type = ports.catalogue.get(message.type)
    except Exception:  # said where the message is delivered
        job_type = None
    return DEFAULT_LEASE if job_type is None else job_type.lease
