"""Settle: the record of how a run ended, written before the acknowledgement."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from shared.domain.describe import safe_text
from shared.domain.failures import classify
from shared.domain.job import MAX_CHECKPOINT_BYTES, MESSAGE_CUT, RETENTION, Job, due_key
from shared.domain.lease import Lease
from shared.domain.outcome import Outcome
from shared.domain.retry import Die, Failure, Retry, WaitOut, judge
from shared.domain.run import StoredFile
from shared.domain.states import (
    CANCEL_RUNNING,
    COMPLETE,
    CONTINUE,
    DEAD_LETTER,
    DEFER,
    DEFER_LATER,
    REQUEST_OWN_CANCEL,
    RETRY,
    RETRY_LATER,
    State,
    Transition,
)
from shared.domain.waits import leaves_its_message, shortest_defer
from shared.errors import DeterministicFailure, LeaseLost, MoveRefused, NotDone, StoreUnavailable, TransientFailure
from shared.jobs import JobType
from shared.operations.acquire import ONE_CALL
from shared.operations.batch import come_back
from shared.operations.endings import cancel_changes
from shared.operations.history import dead_changes, error_changes, record_run
from shared.operations.insist import INSIST_MARGIN, insist
from shared.operations.progress import RunHandle
from shared.ports import Measured, Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts

T = TypeVar("T")

KEPT_FOR_THE_END = timedelta(seconds=5)


@dataclass(slots=True)
class Settlement:
    """One run's end. Whoever claims it writes it: the thread that ran the handler, or the watch that fenced it.
    `hurried`: a handler beside it hangs, and the process must end.

    Each method raises LeaseLost when the job is no longer this run's, StoreUnavailable when the table does not
    answer; the message is then left to come back.
    """

    job: Job
    lease: Lease
    message: Message
    job_type: JobType
    handle: RunHandle
    ports: WorkerPorts
    measured: list[Measured]
    hurried: Callable[[], bool] = lambda: False
    hung: bool = False
    _claim: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> bool:
        """Whether the caller is the one to settle; true once."""
        return self._claim.acquire(blocking=False)

    def overdue(self, process_ends_at: datetime) -> Outcome | None:
        """The deadline passed: shut the handler out, record the attempt as failed. None if it just ended by itself.

        The next attempt starts neither before the lease's end, until which the hung thread believes it owns the job,
        nor before its process has ended, which waits for the neighbours.
        """
        if not self.claim():
            return None
        self.handle.close()
        self.hung = True  # the watch fences others too, and cannot wait for the table
        try:
            now = self.ports.clock.now()
            left = max(self.handle.lease_expires_at or now, process_ends_at) - now
            late = f"no end within {self.job_type.deadline.total_seconds():.0f} s, or no progress within its lease"
            return self.fail(TransientFailure(late, code="deadline-exceeded"), no_sooner=max(left, timedelta()))
        except MoveRefused:
            return Outcome.LEASE_LOST
        except Exception as e:  # the process must end all the same
            self.ports.log.event("fence-failed", level="error", job=self.job.job_id, type=self.job.type, error=e)
            return Outcome.UNAVAILABLE

    def complete(self, result: StoredFile | None) -> Outcome:
        """The effect is done: record it, with the pointer to its result."""
        now = self.ports.clock.now()
        changes: dict[str, Any] = {"completed_at": now, "expires_at": now + RETENTION[State.COMPLETED]}
        if result is not None:
            file = {"key": result.key, "size": result.size, "contentType": result.content_type}
            if result.version is not None:
                file["version"] = result.version
            changes["result"] = {"file": file}
        self._apply(COMPLETE, changes)
        self._end_payload(changes["expires_at"])
        return self._ended(Outcome.COMPLETED, State.COMPLETED)

    def _end_payload(self, expires_at: datetime) -> None:
        """A payload of its own item goes with its record: a completed job never needs it again. Best effort: a crash
        before it leaves the payload to the time it was given at submit.
        """
        if self.job.payload_ref is None:
            return
        try:
            self.ports.store.end_payload(self.job.job_id, self.job.payload_ref, expires_at)
        except StoreUnavailable as e:
            self.ports.log.event("payload-not-ended", level="warning", job=self.job.job_id, error=e)

    def fail(self, error: BaseException, no_sooner: timedelta = timedelta()) -> Outcome:
        """The attempt failed: retry, wait out, or stop, as judge() says."""
        now = self.ports.clock.now()
        error = error.failure if isinstance(error, NotDone) else error  # said outside an effect, where it means nothing
        failure = replace(classify(error, now), no_sooner=no_sooner)
        match judge(failure, self.job, self.job_type.policy, now, self.ports.dice()):
            case Retry(at, failure):
                return self._wait_or_cancel(RETRY, at, error_changes(failure, now), failure, error)
            case WaitOut(at, failure):
                reason = {"reason": failure.for_callers}
                return self._wait_or_cancel(DEFER, at, reason | error_changes(failure, now), failure, error)
            case Die(final):
                return self._die(final, now, error)

    def defer(self, for_: timedelta, reason: str) -> Outcome:
        """The handler asked to be called later."""
        if not isinstance(for_, timedelta) or for_ < timedelta():
            wrong = f"the handler returned Defer({for_!r}); give a timedelta from 0"
            return self.fail(DeterministicFailure(wrong, code="result-invalid"))
        now = self.ports.clock.now()
        at = now + min(for_, max(self.job.deadline_at - now, timedelta()))  # past its deadline it would only expire
        return self._wait_or_cancel(DEFER, at, {"reason": safe_text(reason)[:MESSAGE_CUT]}, None, None)

    def continue_from(self, checkpoint: Mapping[str, Any]) -> Outcome:
        """The handler got as far as the checkpoint: the rest is another run's, at once, under a fresh doorbell."""
        if wrong := self._checkpoint_fault(checkpoint):
            return self.fail(DeterministicFailure(wrong, code="checkpoint-invalid"))
        now = self.ports.clock.now()
        changes = {"checkpoint": json.loads(json.dumps(checkpoint)), "available_at": now, "queued_at": now}
        try:
            self._apply(CONTINUE, changes, checkpoint=changes["checkpoint"])
        except MoveRefused as e:
            return self._cancel_if_asked(e)
        return self._ended(Outcome.CONTINUED, State.QUEUED, checkpoint=changes["checkpoint"])

    def cancel_itself(self, reason: str) -> Outcome:
        """The handler says its job is not wanted any more."""
        request = {
            "who": f"handler of {self.job.type}",
            "why": safe_text(reason)[:MESSAGE_CUT] or "cancelled by its handler",
        }
        self._apply(REQUEST_OWN_CANCEL, {"cancel_request": request}, progress=False)
        return self.cancel()

    def cancel(self) -> Outcome:
        """Stop on request."""
        found = self._insist(lambda: self.ports.store.get(self.job.job_id)) or self.job
        self._apply(CANCEL_RUNNING, cancel_changes(found.cancel_request or {}, self.ports.clock.now()))
        return self._ended(Outcome.CANCELLED, State.CANCELLED)

    def say(self, state: str, **more: Any) -> None:
        """One log line of this run, with the keys every line has."""
        job = self.job
        keys: dict[str, Any] = {
            "job": job.job_id,
            "type": job.type,
            "attempt": job.attempts,
            "run": job.run,
            "state": state,
        }
        self.ports.log.event(str(state), **keys, worker=self.lease.holder, **more)

    def _wait_or_cancel(
        self,
        move: Transition,
        at: datetime,
        changes: dict[str, Any],
        failure: Failure | None,
        error: BaseException | None,
    ) -> Outcome:
        try:
            return self._wait(move, at, changes, failure, error)
        except MoveRefused as e:
            return self._cancel_if_asked(e)

    def _cancel_if_asked(self, refused: MoveRefused) -> Outcome:
        """Asked to stop where it would have gone on: cancel. Anything else that refuses is a lost lease."""
        if refused.found is None or not self.lease.is_of(refused.found) or refused.found.cancel_request is None:
            raise refused
        return self.cancel()

    def _wait(
        self,
        move: Transition,
        at: datetime,
        changes: dict[str, Any],
        failure: Failure | None,
        error: BaseException | None,
    ) -> Outcome:
        now, receives = self.ports.clock.now(), self.message.receives
        if move is DEFER:
            at = max(at, min(now + shortest_defer(receives, self.job.run), self.job.deadline_at))
        changes = changes | {"next_attempt_at": at}
        later = leaves_its_message(at - now, receives, self.ports.queue.fifo, self.message.suspect)
        if later:
            changes |= {"due_key": due_key(self.job.job_id), "due_at": at}
            move = RETRY_LATER if move is RETRY else DEFER_LATER
        after = self._apply(move, changes)
        if not later:
            # A crash here: the message comes back with its lease, finds the wait, and is hidden for what is left of it.
            come_back([self.message], [at - self.ports.clock.now()], self.ports)
        if failure is not None:
            record_run(self.job, after.state, failure, self.ports, error)
        retrying = move in (RETRY, RETRY_LATER)
        kept = Outcome.RETRYING if retrying else Outcome.DEFERRED
        gone = Outcome.RETRYING_IN_DUE if retrying else Outcome.DEFERRED_IN_DUE
        code = {} if failure is None else {"code": failure.code, "failure_class": failure.failure_class}
        level = "info" if failure is None else "warning"
        return self._ended(
            gone if later else kept, after.state, error, level=level, next_attempt_at=at.isoformat(), **code
        )

    def _die(self, failure: Failure, now: datetime, error: BaseException | None) -> Outcome:
        self._apply(DEAD_LETTER, dead_changes(self.job, failure, now))
        record_run(self.job, State.DEAD, failure, self.ports, error)
        code = {"code": failure.code, "failure_class": failure.failure_class}
        return self._ended(Outcome.DEAD, State.DEAD, error, level="error", **code)

    def _apply(
        self, move: Transition, changes: dict[str, Any], *, progress: bool = True, checkpoint: Any = None
    ) -> Job:
        latest = {"progress": self.handle.latest} if progress and self.handle.latest is not None else {}
        seen = self.lease.seen(checkpoint)
        if not self.hung:
            self.handle.say_unsaid(self._may_say)
        try:
            return self._insist(lambda: self.ports.store.apply(self.job.job_id, move, seen, **changes, **latest))
        except MoveRefused as e:
            if e.found is not None and self.lease.landed(e.found, move, changes):
                return e.found
            if self.lease.is_of(e.found):
                raise
            raise LeaseLost(self.job.job_id, move.name, e.found) from e

    def _insist(self, call: Callable[[], T]) -> T:
        """Given up, the run would pass for one whose worker vanished: after two of those a healthy job is `stalled`."""
        return insist(call, self._may_insist, self.job.job_id, self.ports)

    def _may_say(self, took: timedelta) -> bool:
        """What comes before the end must leave it its time."""
        ends_at = self.handle.lease_expires_at or self.ports.clock.now()
        left = ends_at - self.ports.clock.now() - max(took, self.handle.last_try)
        return self._may_insist(took) and left > KEPT_FOR_THE_END

    def _may_insist(self, _took: timedelta) -> bool:
        ends_at = self.handle.lease_expires_at
        left = ends_at - self.ports.clock.now() if ends_at is not None else timedelta()
        if self.hung or self.hurried():
            return False
        return left > INSIST_MARGIN and self.ports.time_left() > ONE_CALL

    def _checkpoint_fault(self, checkpoint: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(checkpoint, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as e:
            return f"the handler's checkpoint is no JSON object ({e})"
        if not isinstance(checkpoint, Mapping):
            return f"the handler's checkpoint is a {type(checkpoint).__name__}; give an object"
        if len(text.encode()) > MAX_CHECKPOINT_BYTES:
            return f"the handler's checkpoint has {len(text.encode())} bytes, at most {MAX_CHECKPOINT_BYTES} are kept"
        if json.loads(text) == self.job.checkpoint:
            return "the handler continues from the checkpoint it started at: it would never end"
        return ""

    def _ended(self, outcome: Outcome, state: str, error: BaseException | None = None, **more: Any) -> Outcome:
        now = self.ports.clock.now()
        ran = now - (self.job.started_at or now)
        self.measured.append(
            Measured(
                type=self.job.type,
                outcome=outcome,
                tenant=self.job.tenant,
                attempt=self.job.attempts,
                reclaimed=self.job.stalls > 0,
                ran=ran,
                since_submit=now - max(self.job.created_at, self.job.run_at),
            )
        )
        self.say(state, duration_ms=ran // timedelta(milliseconds=1), error=error, **more)
        return outcome
