"""Whether the history explains how a job ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.domain.job import EFFECT_COMPLETED, Job
from shared.domain.retry import FailureClass
from shared.domain.states import State
from tests.histories.lives import Life, record
from tests.histories.promises import Promises

A_DAY = 24 * 3600
SOME_DAYS = timedelta(days=3)


def explain(promises: Promises, job: Job, moved: bool, untroubled: bool) -> None:
    """A final record is right. `moved`: SQS moved one of its messages to the DLQ; `untroubled`: nothing at all
    went wrong in this history, and nobody acted.
    """
    life = promises.lives[job.job_id]
    promises.hold("explained", _explained(job, life, moved), lambda: f"nothing explains {record(job)}: {job}")
    for run in life.runs.values():
        idle = not run.started and not run.process.struck
        if idle:
            promises.fail("budget", f"run {run.number} never called its handler: {job}")
    if untroubled:
        ends = life.kind.ends | ({State.EXPIRED} if job.max_age_seconds < A_DAY else set())
        aged = job.error_class == FailureClass.MAX_AGE and job.max_age_seconds < A_DAY
        promises.hold("explained", job.state in ends or aged, lambda: f"without any fault: {job}")


def _explained(job: Job, life: Life, moved: bool) -> bool:
    match job.state:
        case State.COMPLETED:
            done = {name for name, effect in job.effects.items() if effect.status == EFFECT_COMPLETED}
            called = {name for name, _ in life.called}
            return set(life.kind.effects) <= done & called and (not life.kind.requires_result or bool(job.result))
        case State.EXPIRED:
            return job.ended_at is not None and job.deadline_at <= job.ended_at and bool(job.reason)
        case State.CANCELLED:
            return bool(job.cancelled_by) and life.cancel_asked
        case State.DEAD:
            return _death(job, life, moved)
    return False


def _may_have_been_away(job: Job, now: datetime) -> bool:
    """Nobody knows what spent the receives of a message in days; what still may run is not stopped for it."""
    return now - (job.queued_at or job.created_at) > SOME_DAYS and now < job.deadline_at


def _death(job: Job, life: Life, moved: bool) -> bool:
    why = FailureClass(str(job.error_class))
    match why:
        case _ if why in life.kind.dies:
            return True
        case FailureClass.NEVER_RAN:
            return moved and job.dead_at is not None and not _may_have_been_away(job, job.dead_at)
        case FailureClass.STALLED:
            return moved or life.troubled
        case FailureClass.TRANSIENT | FailureClass.UNKNOWN_OUTCOME:
            return life.troubled
        case FailureClass.MAX_AGE:
            return job.dead_at is not None
    return False
