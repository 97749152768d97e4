"""End: the record of how a run ended, written before the acknowledgement."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from shared.domain import writes
from shared.domain.describe import safe_text
from shared.domain.failures import classify
from shared.domain.job import MAX_CHECKPOINT_BYTES, MESSAGE_CUT, Progress
from shared.domain.outcome import Outcome
from shared.domain.retry import Die, Failure, Retry, WaitOut, judge
from shared.domain.run import Cancel, Continue, Defer, StoredFile
from shared.domain.states import State
from shared.domain.waits import leaves_its_message, shortest_defer
from shared.domain.writes import Write
from shared.errors import DeterministicFailure, MoveRefused, NotDone, StoreUnavailable, TransientFailure
from shared.jobs import Ending
from shared.operations.record import record_run
from shared.operations.run.effects import RunEffects
from shared.operations.run.held import Held
from shared.ports import Measured


@dataclass(slots=True)
class RunEnd:
    """One run's end. Whoever claims it (Held.claim) writes it: the thread that ran the handler, or the watch.

    Each method raises LeaseLost when the job is no longer this run's, StoreUnavailable when the table does not
    answer; the message is then left to come back.
    """

    held: Held
    effects: RunEffects

    def overdue(self, process_ends_at: datetime) -> Outcome | None:
        """The deadline passed: shut the handler out, record the attempt as failed. None if it just ended by itself.

        The next attempt starts neither before the lease's end, until which the hung thread believes it owns the job,
        nor before its process has ended, which waits for the neighbours.
        """
        held = self.held
        if not held.claim():
            return None
        held.close()
        held.fenced = True
        try:
            left = max(held.expires_at, process_ends_at) - held.ports.clock.now()
            late = f"no end within {held.job_type.deadline.total_seconds():.0f} s, or no progress within its lease"
            return self.fail(TransientFailure(late, code="deadline-exceeded"), no_sooner=max(left, timedelta()))
        except MoveRefused:
            return Outcome.LEASE_LOST
        except Exception as e:  # the process must end all the same
            held.ports.log.event("fence-failed", level="error", job=held.job.job_id, type=held.job.type, error=e)
            return Outcome.UNAVAILABLE

    def as_said(self, ending: Ending) -> Outcome:
        """How the handler said that it ended."""
        match ending:
            case Defer(for_, reason):
                return self.defer(for_, reason)
            case Continue(checkpoint):
                return self._continue_from(checkpoint)
            case Cancel(reason):
                return self._cancel_itself(reason)
            case StoredFile() | None:
                return self._complete(ending)

    def fail(self, error: BaseException, no_sooner: timedelta = timedelta()) -> Outcome:
        """The attempt failed: retry, wait out, or stop, as judge() says."""
        held, now = self.held, self._now
        error = error.failure if isinstance(error, NotDone) else error  # said outside an effect, where it means nothing
        failure = replace(classify(error, now), no_sooner=no_sooner)
        match judge(failure, held.job, held.job_type.policy, now, held.ports.dice()):
            case Retry(at, failure):
                return self._retry(failure, at, error)
            case WaitOut(at, failure):
                return self._wait_out(failure.for_callers, failure, at, error)
            case Die(final):
                return self._die(final, error)

    def defer(self, for_: timedelta, reason: str) -> Outcome:
        """The handler asked to be called later."""
        if not isinstance(for_, timedelta) or for_ < timedelta():
            wrong = f"the handler returned Defer({for_!r}); give a timedelta from 0"
            return self.fail(DeterministicFailure(wrong, code="result-invalid"))
        now, deadline_at = self._now, self.held.job.deadline_at
        at = now + min(for_, max(deadline_at - now, timedelta()))  # past its deadline it would only expire
        return self._wait_out(safe_text(reason)[:MESSAGE_CUT], None, at, None)

    def cancel(self) -> Outcome:
        """Stop on request."""
        held = self.held
        found = held.insist(lambda: held.ports.store.get(held.job.job_id)) or held.job
        self._write(writes.cancel_running(held.lease, found.cancel_request or {}, self._now, held.latest))
        return self._ended(Outcome.CANCELLED, State.CANCELLED)

    def log(self, state: str, **more: Any) -> None:
        """One log line of this run, with the keys every line has."""
        job = self.held.job
        keys: dict[str, Any] = {
            "job": job.job_id,
            "type": job.type,
            "attempt": job.attempts,
            "run": job.run,
            "state": state,
        }
        self.held.ports.log.event(str(state), **keys, worker=job.holder, **more)

    # ---- the endings -------------------------------------------------------------------------------------------------

    def _complete(self, result: StoredFile | None) -> Outcome:
        """The effect is done: record it, with the pointer to its result."""
        write = writes.complete(self.held.lease, result, self._now, self._progress)
        self._write(write)
        self._end_payload(write.changes["expires_at"])
        return self._ended(Outcome.COMPLETED, State.COMPLETED)

    def _end_payload(self, expires_at: datetime) -> None:
        """A payload of its own item goes with its record: a completed job never needs it again. Best effort: a crash
        before it leaves the payload to the time it was given at submit.
        """
        ports, job = self.held.ports, self.held.job
        if job.payload_ref is None:
            return
        try:
            ports.store.end_payload(job.job_id, job.payload_ref, expires_at)
        except StoreUnavailable as e:
            ports.log.event("payload-not-ended", level="warning", job=job.job_id, error=e)

    def _continue_from(self, checkpoint: Mapping[str, Any]) -> Outcome:
        """The handler got as far as the checkpoint: the rest is another run's, at once, under a fresh doorbell."""
        if wrong := self._checkpoint_fault(checkpoint):
            return self.fail(DeterministicFailure(wrong, code="checkpoint-invalid"))
        kept = json.loads(json.dumps(checkpoint))
        write = writes.continue_from(self.held.lease, kept, self._now, self._progress)
        if (cancelled := self._write_or_cancel(write)) is not None:
            return cancelled
        return self._ended(Outcome.CONTINUED, State.QUEUED, checkpoint=kept)

    def _cancel_itself(self, reason: str) -> Outcome:
        """The handler says its job is not wanted any more."""
        why = safe_text(reason)[:MESSAGE_CUT] or "cancelled by its handler"
        request = {"who": f"handler of {self.held.job.type}", "why": why}
        self._write(writes.request_own_cancel(self.held.lease, request))
        return self.cancel()

    def _retry(self, failure: Failure, at: datetime, error: BaseException) -> Outcome:
        held, now = self.held, self._now
        leaves = self._leaves_message(at, now)
        write = writes.retry(held.lease, failure, at, now, self._progress, leaves_message=leaves)
        outcome = Outcome.RETRYING_IN_DUE if leaves else Outcome.RETRYING
        return self._waits(write, outcome, at, failure, error)

    def _wait_out(self, reason: str, failure: Failure | None, at: datetime, error: BaseException | None) -> Outcome:
        """Called again later, and no attempt is spent. failure: what it waits out, if that is why."""
        held, now = self.held, self._now
        least = now + shortest_defer(held.message.receives, held.job.run)
        at = max(at, min(least, held.job.deadline_at))
        leaves = self._leaves_message(at, now)
        write = writes.defer(held.lease, reason, failure, at, now, self._progress, leaves_message=leaves)
        outcome = Outcome.DEFERRED_IN_DUE if leaves else Outcome.DEFERRED
        return self._waits(write, outcome, at, failure, error)

    def _leaves_message(self, at: datetime, now: datetime) -> bool:
        message, queue = self.held.message, self.held.invocation.lane.queue
        suspect = message.bell is not None and message.bell.suspect
        return leaves_its_message(at - now, message.receives, queue.fifo, suspect)

    def _waits(
        self, write: Write, outcome: Outcome, at: datetime, failure: Failure | None, error: BaseException | None
    ) -> Outcome:
        held = self.held
        if (cancelled := self._write_or_cancel(write)) is not None:
            return cancelled
        if not outcome.acknowledged:
            # A crash here: the message comes back with its lease, finds the wait, and is hidden for what is left of it.
            held.invocation.come_back([held.message], [at - self._now])
        if failure is None:
            return self._ended(outcome, State.RETRYING, next_attempt_at=at.isoformat())
        record_run(held.job, State.RETRYING, failure, held.ports, error)
        told = {"code": failure.code, "failure_class": failure.failure_class}
        return self._ended(outcome, State.RETRYING, error, level="warning", next_attempt_at=at.isoformat(), **told)

    def _die(self, failure: Failure, error: BaseException) -> Outcome:
        held = self.held
        self._write(writes.dead_letter(held.lease, held.job, failure, self._now, self._progress))
        record_run(held.job, State.DEAD, failure, held.ports, error)
        told = {"code": failure.code, "failure_class": failure.failure_class}
        return self._ended(Outcome.DEAD, State.DEAD, error, level="error", **told)

    # ---- the write ---------------------------------------------------------------------------------------------------

    def _write(self, write: Write) -> None:
        if not self.held.fenced:
            self.effects.report_unsaid()
        self.held.write(write)

    def _write_or_cancel(self, write: Write) -> Outcome | None:
        """Asked to stop where it would have gone on: cancel. Anything else that refuses is raised."""
        try:
            self._write(write)
        except MoveRefused as e:
            if e.found is None or not self.held.lease.is_of(e.found) or e.found.cancel_request is None:
                raise
            return self.cancel()
        return None

    @property
    def _now(self) -> datetime:
        return self.held.ports.clock.now()

    @property
    def _progress(self) -> Progress | None:
        return self.held.latest

    def _checkpoint_fault(self, checkpoint: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(checkpoint, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as e:
            return f"the handler's checkpoint is no JSON object ({e})"
        if not isinstance(checkpoint, Mapping):
            return f"the handler's checkpoint is a {type(checkpoint).__name__}; give an object"
        if len(text.encode()) > MAX_CHECKPOINT_BYTES:
            return f"the handler's checkpoint has {len(text.encode())} bytes, at most {MAX_CHECKPOINT_BYTES} are kept"
        if json.loads(text) == self.held.job.checkpoint:
            return "the handler continues from the checkpoint it started at: it would never end"
        return ""

    def _ended(self, outcome: Outcome, state: str, error: BaseException | None = None, **more: Any) -> Outcome:
        job, now = self.held.job, self._now
        ran = now - (job.started_at or now)
        self.held.invocation.measured.append(
            Measured(
                type=job.type,
                outcome=outcome,
                tenant=job.tenant,
                attempt=job.attempts,
                reclaimed=job.stalls > 0,
                ran=ran,
                since_submit=now - max(job.created_at, job.run_at),
            )
        )
        self.log(state, duration_ms=ran // timedelta(milliseconds=1), error=error, **more)
        return outcome
