"""What one change of a job record means to a person watching: the two images of a stream record, told as a step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain.job import Job
from shared.domain.states import State


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one job. `at` is the record's own time where it keeps one, else when the change was seen."""

    at: datetime
    job: Job
    told: str

    def line(self) -> str:
        """One line for the terminal."""
        since = max((self.at - self.job.created_at) / timedelta(seconds=1), 0.0)
        local = self.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
        return f"{local}  {self.job.job_id}  {self.job.type:<16} {self.job.state:<10} +{since:6.2f} s  {self.told}"


def tell(old: Job | None, new: Job | None, seen_at: datetime) -> Step | None:
    """The step between two images of one record; None for its removal by TTL."""
    if new is None:
        return None
    if old is None:
        whose = f"tenant {new.tenant}, " if new.tenant else ""
        at_once = f"outbox {new.outbox}" if new.outbox else f"scheduled for {_day_and_clock(new.run_at)}"
        return Step(new.created_at, new, f"api: recorded, {at_once}, {whose}for {new.queue}")
    if old.state is new.state and old.run == new.run:
        return _within_a_state(old, new, seen_at)
    return _into_a_state(old, new, seen_at)


def _within_a_state(old: Job, new: Job, seen_at: datetime) -> Step:
    if new.published_at is not None and old.published_at is None:
        goes_to = f"the DLQ of {new.queue}, marked" if new.state is State.DEAD else new.queue
        return Step(new.published_at, new, f"relay: doorbell {new.dispatch} sent to {goes_to}")
    if new.progress is not None and new.progress != old.progress:
        return Step(seen_at, new, f"worker: {_progress(new)}, lease renewed until {_clock(new.lease_expires_at)}")
    if new.lease_expires_at != old.lease_expires_at:
        return Step(seen_at, new, f"worker: lease renewed until {_clock(new.lease_expires_at)}")
    if new.outbox is not None and old.rung_at != new.rung_at:
        return Step(new.rung_at or seen_at, new, f"doorbell {new.dispatch} to be rung again")
    if (request := new.cancel_request) is not None and old.cancel_request is None:
        return Step(seen_at, new, f"cancel requested by {request.get('who', '?')}: {request.get('why', '?')}")
    if new.effects != old.effects:
        return Step(seen_at, new, f"worker: {_effect(old, new)}")
    if new.next_attempt_at != old.next_attempt_at:
        return Step(seen_at, new, f"worker: {_waits(new)}")
    return Step(seen_at, new, "record changed")


def _into_a_state(old: Job, new: Job, seen_at: datetime) -> Step:
    match new.state:
        case State.RUNNING:
            again = ", taken over from a worker that vanished" if old.state is State.RUNNING else ""
            lease = f"run {new.run}, lease until {_clock(new.lease_expires_at)}"
            return Step(
                new.started_at or seen_at, new, f"worker: attempt {new.attempts} of {new.max_attempts} ({lease}){again}"
            )
        case State.COMPLETED:
            at = new.completed_at or seen_at
            took = (at - (new.started_at or at)) / timedelta(seconds=1)
            return Step(at, new, f"worker: done in {took:.2f} s, {_result(new)}")
        case State.RETRYING:
            failed_now = new.last_error_at != old.last_error_at
            return Step((new.last_error_at if failed_now else None) or seen_at, new, f"worker: {_waits(new)}")
        case State.DEAD:
            return Step(new.dead_at or seen_at, new, f"{_error(new)} (attempt {new.attempts} of {new.max_attempts})")
        case State.CANCELLED:
            by = new.cancelled_by or "unknown"
            return Step(new.ended_at or seen_at, new, f"cancelled by {by}: {new.reason or 'no reason given'}")
        case State.EXPIRED:
            return Step(new.ended_at or seen_at, new, new.reason or "no reason given")
        case State.SCHEDULED:
            return Step(seen_at, new, f"moved to {_day_and_clock(new.run_at)}")
        case State.QUEUED:
            return Step(seen_at, new, f"{_queued_again(old, new)}, doorbell {new.dispatch} next")


def _queued_again(old: Job, new: Job) -> str:
    if old.state is State.RUNNING:
        if new.checkpoint != old.checkpoint:
            return f"worker: continues from {json.dumps(new.checkpoint, ensure_ascii=False)}"
        return "sweeper: taken back from a worker that vanished"
    if old.due_key is not None:
        return f"promoter: due at {_day_and_clock(old.due_at)}"
    return "its wait is over" if old.state is State.RETRYING else f"replayed, it was {old.state}"


def _waits(job: Job) -> str:
    why = job.reason or _error(job)
    if job.due_key is not None:  # no message any more: the promoter brings it back
        return f"{why}; waits in the due index until {_day_and_clock(job.due_at)}"
    return f"{why}; next attempt {_clock(job.next_attempt_at)}"


def _effect(old: Job, new: Job) -> str:
    for name, effect in new.effects.items():
        if old.effects.get(name) != effect:
            return f"effect {name!r} {effect.status}"
    gone = ", ".join(repr(name) for name in old.effects if name not in new.effects)
    return f"effect {gone} failed, to be tried anew"


def _progress(job: Job) -> str:
    return f"{job.progress.done} of {job.progress.total} {job.progress.unit}" if job.progress else ""


def _result(job: Job) -> str:
    file = (job.result or {}).get("file")
    done = f"{_progress(job)}, " if job.progress else ""
    return f"{done}{file['key']} ({file['size']:,} bytes)" if file else f"{done}no result file"


def _error(job: Job) -> str:
    return f"{job.error_class} {job.error_code}: {job.error_message}"


def _clock(at: datetime | None) -> str:
    return "?" if at is None else at.astimezone().strftime("%H:%M:%S")


def _day_and_clock(at: datetime | None) -> str:
    return "?" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
