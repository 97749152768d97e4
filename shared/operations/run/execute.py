"""Execute: call the handler under its deadline and its lease, then record how that ended."""

from __future__ import annotations

from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.run import Cancel, Continue, Defer, StoredFile
from shared.domain.states import State
from shared.domain.waits import unready
from shared.errors import DeterministicFailure, LeaseLost, MoveRefused, StoreUnavailable
from shared.jobs import Ending, JobType
from shared.operations.run.effects import RunEffects
from shared.operations.run.end import RunEnd
from shared.operations.run.handle import RunHandle
from shared.operations.run.held import CancelRequested, Held
from shared.operations.run.invocation import KEPT_TO_FINISH, Invocation
from shared.operations.run.watch import Running
from shared.ports import JobStore, Message


def execute(job: Job, message: Message, job_type: JobType, invocation: Invocation) -> Outcome | None:
    """One run of a leased job. None: it was fenced meanwhile, and the watch has its outcome. Raises as RunEnd."""
    deadline_at = invocation.ports.clock.now() + min(job_type.deadline, invocation.time_left() - KEPT_TO_FINISH)
    held = Held(job, message, job_type, invocation, deadline_at)
    effects = RunEffects(held)
    handle, end = RunHandle(held, effects), RunEnd(held, effects)
    end.log(State.RUNNING)
    running = Running(message, deadline_at, lambda: held.expires_at, held.close, end.overdue)
    invocation.watch.start(running)
    try:
        ending = _handled(held, handle)
    except _PayloadUnavailable:
        return end.defer(unready(message.receives), "its stored payload could not be read") if held.claim() else None
    except LeaseLost:
        if held.claim():
            raise
        return None
    except CancelRequested:
        return end.cancel() if held.claim() else None
    except BaseException as e:  # whatever a handler raises, SystemExit too, is its job's failure, never the batch's
        return end.fail(e) if held.claim() else None
    finally:
        held.close()
        invocation.watch.end(running)
        running.returned = True
    return _recorded(ending, end) if held.claim() else None


def _recorded(ending: Ending, end: RunEnd) -> Outcome:
    try:
        return end.as_said(ending)
    except (MoveRefused, StoreUnavailable):
        raise
    except Exception as e:  # an ending that cannot be written is the handler's failure, not a worker that vanished
        said = f"how the handler ended cannot be recorded ({type(e).__name__})"
        wrong = DeterministicFailure(said, code="result-invalid")
        wrong.__cause__ = e
        return end.fail(wrong)


def _handled(held: Held, handle: RunHandle) -> Ending:
    job, job_type = held.job, held.job_type
    payload = job_type.parse(_payload(job, held.ports.store), job.payload_version)
    handle.act_for(payload)
    ending = job_type.handler(payload, handle)
    if not isinstance(ending, StoredFile | Defer | Continue | Cancel | None):
        raise DeterministicFailure(
            f"the handler returned a {type(ending).__name__}; return a StoredFile, None, Defer, Continue or Cancel",
            code="result-invalid",
        )
    if isinstance(ending, StoredFile):
        _check(ending)
        handle.files.check_result(ending)
    if ending is None and job_type.requires_result:
        raise DeterministicFailure("the handler returned no result, which its type requires", code="result-missing")
    return ending


def _check(file: StoredFile) -> None:
    if not (type(file.key) is str and type(file.size) is int):
        raise DeterministicFailure(f"{file!r:.120} has no text as key and number as size", code="result-invalid")
    if not (file.version is None or type(file.version) is str):
        raise DeterministicFailure(f"{file!r:.120} has no text as version", code="result-invalid")


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
