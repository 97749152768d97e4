"""What a record looks like in each state: in which indexes it stands, and what it has put away (DESIGN §4)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.domain.job import Job
from shared.domain.states import FINAL, OUTBOX_OPEN, State


def fault_in(job: Job) -> str | None:
    """The promise about its shape that this record breaks, if any."""
    wrong = [name for name, right in _rules(job).items() if not right]
    return f"(i) {wrong[0]}" if wrong else None


def _rules(job: Job) -> Mapping[str, bool]:
    state, in_due = job.state, job.due_key is not None
    long_wait = state is State.SCHEDULED or (state is State.RETRYING and in_due)
    open_work = state in (State.QUEUED, State.RUNNING) or (state is State.RETRYING and not in_due)
    ended = state in FINAL
    return {
        "a record is in the open index while it is work at hand, and only then": (job.open_key is not None)
        == open_work,
        "a record is in the due index while it waits long, and only then": in_due == long_wait
        and (job.due_at is not None) == in_due,
        "a record is in the dead index while it is dead, and only then": (job.dead_key is not None)
        == (state is State.DEAD),
        "a record has a time to live once it has ended, and only then": (job.expires_at is not None) == ended,
        "a record has a lease while it runs, and only then": (job.lease_expires_at is not None)
        == (state is State.RUNNING),
        "a record that has ended waits for nothing": not (ended and job.next_attempt_at is not None),
        "a running record waits for nothing": not (state is State.RUNNING and job.next_attempt_at is not None),
        "a record whose ring is still to come is not marked as rung": not (
            job.outbox == OUTBOX_OPEN and job.published_at is not None
        ),
    }
