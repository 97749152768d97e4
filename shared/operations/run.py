"""Run: lease, execute, record, acknowledge. The worker is a lease manager; the handler is the smallest part of it.

The order of the writes is the guarantee:

    1 lease        a crash after it: the message comes back, finds the lease lapsed, and the job is reclaimed
    2 effect       a crash after it: the rerun repeats the effect under the same key or name, which converges it; one
                   that `once` recorded is not repeated, and one that is at-most-once stops for a human
    3 record       a crash after it: the message comes back, finds the job final or its dispatch newer, runs nothing
    4 acknowledge

Every write after the lease carries its run number and holder, so a worker whose job was reclaimed can write nothing.
tests/chaos kills a process before and after every call of this path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.job import Job
from shared.domain.lease import Lease
from shared.domain.outcome import Alert, Outcome
from shared.domain.run import Cancel, Continue, Defer, Files, StoredFile
from shared.domain.states import State
from shared.domain.waits import unready
from shared.errors import DeterministicFailure, LeaseLost, MoveRefused, RingRefused, StoreUnavailable
from shared.jobs import Catalogue, Ending, JobType
from shared.operations.acquire import acquire, defer_unleased
from shared.operations.batch import FINISHING_MARGIN, Batch, Place, come_back, lease_hide
from shared.operations.progress import CancelRequested, RunHandle
from shared.operations.reroute import reroute
from shared.operations.settle import Settlement
from shared.operations.share import LaneShare
from shared.operations.watch import Running, Watch
from shared.ports import Clock, Effects, JobStore, Log, Mailbox, Measured, Message, Meter
from shared.queues import Queue

UNKNOWN_TYPE_WAIT = timedelta(minutes=1)
ABOVE_SHARE = "its tenant has used more than its share of this lane; it waits for its turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPorts:
    """What a worker needs.

    dice, token        uniform in [0, 1); a fresh secret per lease
    pause              let this time pass
    time_left          of this invocation
    end_process        called when a handler hangs, after its neighbours ended and were acknowledged; does not return
    """

    queue: Queue
    stage: str
    store: JobStore
    mailbox: Mailbox
    files: Files
    effects: Effects
    catalogue: Catalogue
    clock: Clock
    log: Log
    meter: Meter
    share: LaneShare
    code_version: str
    dice: Callable[[], float]
    token: Callable[[], str]
    pause: Callable[[timedelta], None]
    time_left: Callable[[], timedelta]
    end_process: Callable[[], None]


def run_batch(messages: Sequence[Message], ports: WorkerPorts) -> list[str]:
    """Run every job of a batch; returns the ids of the messages that must not be deleted. Never raises for a job.

    Standard lane: all side by side. FIFO lane: one after the other within a group; behind one that stays, the rest
    of its group is released unstarted, which keeps the order.
    """
    batch, started_at = Batch(Watch(ports.clock)), ports.clock.now()
    batch.hide(messages, ports)
    groups: dict[str, list[Message]] = {}
    for message in messages:
        in_order = ports.queue.fifo and message.group is not None
        groups.setdefault(f"g:{message.group}" if in_order else f"m:{message.message_id}", []).append(message)
    _make_room(groups, batch, ports)
    pool = ThreadPoolExecutor(ports.queue.parallelism)
    running = {pool.submit(_run_group, group, batch, ports) for group in groups.values()}
    _supervise(running, batch)
    pool.shutdown(wait=False)
    ports.share.charge(started_at, _worker_time(batch.measured))
    try:
        ports.meter.emit(ports.queue.name, batch.measured)
    except Exception as e:  # a batch that cannot be counted is still done
        ports.log.event("not-measured", level="error", job="", error=e)
    if batch.watch.hung:
        _leave(messages, batch, ports)
    return [message.message_id for message in messages if message.message_id in batch.kept]


def _worker_time(measured: Sequence[Measured]) -> dict[str, timedelta]:
    """What the runs of a batch took, by tenant."""
    took: dict[str, timedelta] = {}
    for one in measured:
        if one.tenant is not None and one.ran is not None:
            took[one.tenant] = took.get(one.tenant, timedelta()) + one.ran
    return took


def _make_room(groups: dict[str, list[Message]], batch: Batch, ports: WorkerPorts) -> None:
    """A suspect that its doorbell names comes first: it would find room on no busy lane. All others go to other
    processes at once, at the price of a receive.
    """
    suspects = [name for name, group in groups.items() if group[0].suspect]
    if suspects:
        first = groups.pop(suspects[0])
        batch.release([*first[1:], *(message for group in groups.values() for message in group)], ports)
        groups.clear()
        groups[suspects[0]] = first[:1]


def _supervise(running: set[Future[None]], batch: Batch) -> None:
    """Until every group ended, or only hung handlers are left."""
    while len(running) > sum(not one.returned for one in batch.watch.hung):
        timeout = batch.watch.seconds_to_next_deadline()
        ended, running = wait(running, timeout=0.05 if timeout is None else timeout + 0.01, return_when=FIRST_COMPLETED)
        for future in ended:
            future.result()
        batch.watch.fence_overdue()


def _leave(messages: Sequence[Message], batch: Batch, ports: WorkerPorts) -> None:
    """A handler hangs, so this process must end, and with it the answer that would acknowledge the others."""
    for hung in batch.watch.hung:
        if hung.outcome is not None and hung.outcome.acknowledged:
            batch.done.append(hung.message)
    done = {message.message_id for message in batch.done}
    batch.kept |= {message.message_id for message in messages} - done
    ports.mailbox.acknowledge(batch.done)
    ports.log.event("process-ends", level="error", job="", hung=[one.message.job_id for one in batch.watch.hung])
    ports.end_process()


def _run_group(group: Sequence[Message], batch: Batch, ports: WorkerPorts) -> None:
    for place, message in enumerate(group):
        if not Place(message, batch, ports).has_time():
            batch.release(group[place:], ports, behind=place > 0)
            return
        outcome = deliver(message, batch, ports)
        if outcome is not None and outcome.acknowledged:
            batch.done.append(message)
            continue
        batch.kept.add(message.message_id)
        batch.release(group[place + 1 :], ports, behind=True)
        return


def deliver(message: Message, batch: Batch, ports: WorkerPorts) -> Outcome | None:
    """One message to its end; never raises. What could not be done now is left to the message's return. None: the
    handler was fenced meanwhile, and the watch has its outcome.
    """
    try:
        return _deliver(message, batch, ports)
    except MoveRefused as e:
        found = e.found
        state, holder = (found.state, found.holder) if found else ("gone", None)
        ports.log.event("lease-lost", job=message.job_id, type=message.type, state=state, found_holder=holder)
        outcome = Outcome.LEASE_LOST
    except (StoreUnavailable, RingRefused) as e:
        ports.log.event("unavailable", level="warning", job=message.job_id, type=message.type, error=e)
        outcome = _unready(message, batch, ports)
    except Exception as e:  # a surprise (a right that is missing, a record nobody can read) stays with its message
        ports.log.event("surprise", level="error", job=message.job_id, type=message.type, error=e)
        outcome = _unready(message, batch, ports, surprise=True)
    batch.measured.append(Measured(type=message.type, outcome=outcome))
    return outcome


def _unready(message: Message, batch: Batch, ports: WorkerPorts, *, surprise: bool = False) -> Outcome:
    """Nothing can be done about this job now: its message comes back with its lease, and ever later while that goes on.
    What is no absence of the table ends in the DLQ some day, for a human: nothing else would stop it.
    """
    wait = unready(message.receives)
    if message.message_id not in batch.leased and wait > lease_hide(message, ports):
        if surprise:
            ports.mailbox.hide([message], [wait])
        else:
            come_back([message], [wait], ports)
    return Outcome.UNAVAILABLE


def _deliver(message: Message, batch: Batch, ports: WorkerPorts) -> Outcome | None:
    if not batch.turns.beside():
        batch.release([message], ports)
        return Outcome.RELEASED
    try:
        place = Place(message, batch, ports)
        if not place.has_time():  # it may have waited for its turn
            batch.release([message], ports)
            return Outcome.RELEASED
        return _deliver_in_turn(place, ports)
    finally:
        batch.turns.done()


def _deliver_in_turn(place: Place, ports: WorkerPorts) -> Outcome | None:
    message, batch = place.message, place.batch
    job_type, why_not = _known(message, ports) if message.job_id else (None, "")
    moved = reroute(message, job_type, ports) if job_type is not None else None
    above = ports.share.wait(message.tenant, ports.dice()) if job_type is not None and moved is None else None
    if moved is not None:
        outcome = moved
    elif above is not None:
        outcome = defer_unleased(message, ABOVE_SHARE, above, ports)
    elif job_type is not None:
        leased = acquire(message, job_type, place, ports)
        if isinstance(leased, Job):
            batch.leased.add(message.message_id)
            return _execute(leased, message, job_type, batch, ports)
        outcome = leased
    elif message.job_id:
        # On a FIFO lane all of it by one message; elsewhere a fresh one soon counts anew.
        longer = unready(message.receives) if ports.queue.fifo else timedelta()
        outcome = defer_unleased(message, why_not, max(UNKNOWN_TYPE_WAIT, longer), ports)
    else:
        ports.mailbox.set_aside(message, "its body is no doorbell")
        ports.log.event("orphaned", level="error", job="", message_id=message.message_id, length=len(message.body))
        outcome = Outcome.ORPHANED
    batch.measured.append(Measured(type=message.type, outcome=outcome))
    return outcome


def _known(message: Message, ports: WorkerPorts) -> tuple[JobType | None, str]:
    """The job type, or why this worker cannot run it now: during a deployment the next one can, so nothing dies. But a
    person hears of it, since a job that only ever waits ends without a word.
    """
    try:
        job_type = ports.catalogue.get(message.type)
    except Exception as e:  # a user's file that does not import must not take its neighbours down
        ports.log.event("job-type-unusable", level="error", job=message.job_id, type=message.type, error=e)
        why, alert = f"job type {message.type!r} cannot be loaded ({type(e).__name__})", Alert.TYPE_NOT_LOADED
    else:
        if job_type is not None and message.payload_version <= job_type.version:
            return job_type, ""
        why, alert = f"this worker knows no job type {message.type!r}", Alert.TYPE_NOT_KNOWN
        if job_type is not None:
            why = f"payload version {message.payload_version} is newer than this worker's {job_type.version}"
    ports.meter.alert(alert, queue=ports.queue.name, type=message.type, job=message.job_id)
    return None, why


def _execute(job: Job, message: Message, job_type: JobType, batch: Batch, ports: WorkerPorts) -> Outcome | None:
    lease = Lease(job.job_id, job.run, job.holder or "")
    deadline_at = ports.clock.now() + min(job_type.deadline, ports.time_left() - FINISHING_MARGIN)
    handle = RunHandle(job, lease, message, job_type, deadline_at, ports)
    settlement = Settlement(
        job, lease, message, job_type, handle, ports, batch.measured, lambda: bool(batch.watch.hung)
    )
    settlement.say(State.RUNNING)
    lease_ends_at = lambda: handle.lease_expires_at or deadline_at  # noqa: E731
    running = Running(message, deadline_at, lease_ends_at, handle.close, settlement.overdue)
    batch.watch.start(running)
    try:
        payload = _payload(job, ports.store)
        ending = _effect(payload, job, job_type, handle)
    except _PayloadUnavailable:
        if not settlement.claim():
            return None
        return settlement.defer(unready(message.receives), "its stored payload could not be read")
    except LeaseLost:
        if not settlement.claim():
            return None
        raise
    except CancelRequested:
        return settlement.cancel() if settlement.claim() else None
    except BaseException as e:  # whatever a handler raises, SystemExit too, is its job's failure, never the batch's
        return settlement.fail(e) if settlement.claim() else None
    finally:
        handle.close()
        batch.watch.end(running)
        running.returned = True
    if not settlement.claim():
        return None
    try:
        return _settle(ending, settlement)
    except (MoveRefused, StoreUnavailable):
        raise
    except Exception as e:  # an ending that cannot be written is the handler's failure, not a worker that vanished
        said = f"how the handler ended cannot be recorded ({type(e).__name__})"
        wrong = DeterministicFailure(said, code="result-invalid")
        wrong.__cause__ = e
        return settlement.fail(wrong)


def _settle(ending: Ending, settlement: Settlement) -> Outcome:
    match ending:
        case Defer(for_, reason):
            return settlement.defer(for_, reason)
        case Continue(checkpoint):
            return settlement.continue_from(checkpoint)
        case Cancel(reason):
            return settlement.cancel_itself(reason)
        case StoredFile() | None:
            return settlement.complete(ending)


class _PayloadUnavailable(Exception):
    """The table did not give the payload: the job has not begun, so no attempt is spent."""


def _payload(job: Job, store: JobStore) -> str:
    if job.payload_ref is None:
        return job.payload or ""
    try:
        payload = store.get_payload(job.job_id, job.payload_ref)
    except StoreUnavailable as e:
        raise _PayloadUnavailable from e
    if payload is None:
        raise DeterministicFailure("the stored payload is gone", code="payload-missing")
    return payload


def _effect(payload: str, job: Job, job_type: JobType, handle: RunHandle) -> Ending:
    parsed = job_type.parse(payload, job.payload_version)
    handle.act_for(parsed)
    ending = job_type.handler(parsed, handle)
    if not isinstance(ending, StoredFile | Defer | Continue | Cancel | None):
        raise DeterministicFailure(
            f"the handler returned a {type(ending).__name__}; return a StoredFile, None, Defer, Continue or Cancel",
            code="result-invalid",
        )
    if isinstance(ending, StoredFile) and not (type(ending.key) is str and type(ending.size) is int):
        raise DeterministicFailure(f"{ending!r:.120} has no text as key and number as size", code="result-invalid")
    if isinstance(ending, StoredFile) and not (ending.version is None or type(ending.version) is str):
        raise DeterministicFailure(f"{ending!r:.120} has no text as version", code="result-invalid")
    if isinstance(ending, StoredFile):
        handle.files.check_result(ending)
    if ending is None and job_type.requires_result:
        raise DeterministicFailure("the handler returned no result, which its type requires", code="result-missing")
    return ending
