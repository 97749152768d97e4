"""Settle: the record of how a run ended, written before the acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from shared.domain.job import RETENTION, Job
from shared.domain.lease import Lease
from shared.domain.outcome import Outcome
from shared.domain.retry import Die, Failure, Retry, WaitOut, classify, judge
from shared.domain.run import StoredFile
from shared.domain.states import CANCEL_RUNNING, COMPLETE, DEAD_LETTER, DEFER, RETRY, State, Transition
from shared.errors import LeaseLost, MoveRefused
from shared.jobs import JobType
from shared.operations.acquire import cancel_changes
from shared.operations.history import dead_changes, error_changes, record_run
from shared.operations.progress import RunHandle
from shared.ports import Message

if TYPE_CHECKING:
    from shared.operations.run import WorkerPorts


@dataclass(frozen=True, slots=True)
class Settlement:
    """One run's end. Each method raises LeaseLost when the job is no longer this run's, StoreUnavailable when the
    table does not answer; the message is then left to come back.
    """

    job: Job
    lease: Lease
    message: Message
    job_type: JobType
    handle: RunHandle
    ports: WorkerPorts

    def complete(self, result: StoredFile | None) -> Outcome:
        """The effect is done: record it, with the pointer to its result."""
        now = self.ports.clock.now()
        changes: dict[str, Any] = {"completed_at": now, "expires_at": now + RETENTION[State.COMPLETED]}
        if result is not None:
            file = {"key": result.key, "size": result.size, "contentType": result.content_type}
            changes["result"] = {"file": file}
        self._apply(COMPLETE, changes)
        self.say(State.COMPLETED, duration_ms=self._ran_ms(now))
        return Outcome.COMPLETED

    def fail(self, error: BaseException) -> Outcome:
        """The attempt failed: retry, wait out, or stop, as judge() says."""
        failure, now = classify(error), self.ports.clock.now()
        try:
            match judge(failure, self.job, self.job_type.policy, now, self.ports.dice()):
                case Retry(at):
                    return self._wait(RETRY, at, error_changes(failure, now), failure, error)
                case WaitOut(at):
                    reason = {"reason": f"{failure.code}: {failure.message}"[:200]}
                    return self._wait(DEFER, at, reason, failure, error)
                case Die(final):
                    return self._die(final, now, error)
        except MoveRefused as e:
            if e.found is None or not self._is_mine(e.found) or e.found.cancel_request is None:
                raise
            return self.cancel()  # asked to stop where it would have gone on

    def cancel(self) -> Outcome:
        """Stop on request."""
        found = self.ports.store.get(self.job.job_id) or self.job
        self._apply(CANCEL_RUNNING, cancel_changes(found, self.ports.clock.now()))
        self.say(State.CANCELLED)
        return Outcome.CANCELLED

    def say(self, state: str, **more: Any) -> None:
        """One log line of this run, with the keys every line has."""
        self.ports.log.event(
            str(state),
            job=self.job.job_id,
            type=self.job.type,
            attempt=self.job.attempts,
            run=self.job.run,
            state=state,
            **more,
        )

    def _wait(
        self, move: Transition, at: datetime, changes: dict[str, Any], failure: Failure, error: BaseException
    ) -> Outcome:
        after = self._apply(move, changes | {"next_attempt_at": at})
        # A crash here: the message comes back with its lease, finds the wait, and is hidden for what is left of it.
        wait = max(at - self.ports.clock.now(), timedelta())
        self.ports.mailbox.hide([self.message], [wait])
        record_run(self.job, after.state, failure, self.ports, error)
        self.say(
            after.state, level="warning", error=error, code=failure.code, wait_ms=wait // timedelta(milliseconds=1)
        )
        return Outcome.RETRYING if move is RETRY else Outcome.DEFERRED

    def _die(self, failure: Failure, now: datetime, error: BaseException) -> Outcome:
        self._apply(DEAD_LETTER, dead_changes(self.job, failure, now))
        record_run(self.job, State.DEAD, failure, self.ports, error)
        self.say(State.DEAD, level="error", error=error, code=failure.code, failure_class=failure.failure_class)
        return Outcome.DEAD

    def _apply(self, move: Transition, changes: dict[str, Any]) -> Job:
        progress = {} if self.handle.latest is None else {"progress": self.handle.latest}
        try:
            return self.ports.store.apply(self.job.job_id, move, self.lease.seen(), **changes, **progress)
        except MoveRefused as e:
            if e.found is not None and self._is_mine(e.found):
                if e.found.state is move.target:
                    return e.found  # our own write, repeated by the SDK after a lost answer
                raise
            raise LeaseLost(self.job.job_id, move.name, e.found) from e

    def _is_mine(self, found: Job) -> bool:
        return found.run == self.lease.run and found.holder == self.lease.holder

    def _ran_ms(self, now: datetime) -> int:
        return (now - (self.job.started_at or now)) // timedelta(milliseconds=1)
