"""What a job's callers are told of its trouble: what its author wrote, and what Holdfast itself says. A foreign
exception's text is the operator's.
"""

from __future__ import annotations

import hashlib

from shared.domain.job import MESSAGE_CUT, Job
from shared.domain.states import State


def told_digest(message: str) -> bytes:
    """The mark (`Job.error_told`) of an error_message that callers may read.

    It names the message: a worker of an older version writes another message and leaves the mark as it was, and a flag
    would then let a foreign text through.
    """
    return hashlib.sha256(message.encode()).digest()[:8]


def told_error(job: Job) -> str | None:
    """The message of the last error as far as callers may read it; nothing of a time when none was marked."""
    message = job.error_message
    return message if message is not None and job.error_told == told_digest(message) else None


def told_reason(job: Job) -> str | None:
    """Why it waits or ended. Older versions put the message of a foreign exception behind its code."""
    foreign = f"{job.error_code}: {job.error_message}"[:MESSAGE_CUT]
    return job.error_code if job.reason == foreign and told_error(job) is None else job.reason


def with_what_stood_in_its_way(said: str, job: Job) -> str:
    """What ends a job that never got to run is seldom why it did not: `said`, and what its record knows of that."""
    stood = _in_its_way(job)
    return (f"{said}; in its way: {stood}" if stood else said)[:MESSAGE_CUT]


def _in_its_way(job: Job) -> str:
    if job.state is State.RUNNING:
        return f"run {job.run} ended without a word"
    if reason := told_reason(job):
        return reason
    return ": ".join(text for text in (job.error_class, job.error_code, told_error(job)) if text)
