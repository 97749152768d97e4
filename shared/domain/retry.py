"""Retry, wait out an outage, or stop: decided here from values alone, acted on by operations/run.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from shared.domain.job import MESSAGE_CUT, Job
from shared.errors import (
    DeclarationError,
    DeterministicFailure,
    EnvironmentalFailure,
    JobFailure,
    TransientFailure,
)


class FailureClass(StrEnum):
    """Why an attempt failed, in the first article's classes; the last three are the system's own findings."""

    TRANSIENT = "transient"
    DETERMINISTIC = "deterministic"
    ENVIRONMENTAL = "environmental"
    STALLED = "stalled"  # its worker vanished, more than once in a row
    NEVER_RAN = "never-ran"  # SQS gave up on the message before any worker could start it
    MAX_AGE = "max-age"  # its next attempt would come after its deadline


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt: its class, a short stable code for grouping, one line for a person."""

    failure_class: FailureClass
    code: str
    message: str
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """delays[n] is waited before attempt n + 1 (delays[0] before the first, so always 0); as many attempts as delays.

    environmental  the wait between looks while something outside is off; spends no attempt, ends with the max age
    """

    delays: tuple[timedelta, ...]
    environmental: timedelta = timedelta(minutes=15)

    def __post_init__(self) -> None:
        if not self.delays or self.delays[0]:
            raise DeclarationError("a retry policy needs a delay per attempt, the first of them 0")
        if any(delay < timedelta() for delay in self.delays) or self.environmental <= timedelta():
            raise DeclarationError("a retry policy's delays cannot be negative, nor its environmental wait empty")
        if len(self.delays) > 50:
            raise DeclarationError("a retry policy of more than 50 attempts: SQS would move the message away first")

    @property
    def max_attempts(self) -> int:
        """Attempts that count, the first included."""
        return len(self.delays)


DEFAULT_POLICY = RetryPolicy(
    delays=(
        timedelta(),
        timedelta(seconds=5),
        timedelta(seconds=30),
        timedelta(minutes=2),
        timedelta(minutes=10),
        timedelta(hours=1),
    )
)
"""The first article's schedule."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again at this time; the attempt is spent."""

    at: datetime
    failure: Failure


@dataclass(frozen=True, slots=True)
class WaitOut:
    """Look again at this time; the attempt is given back."""

    at: datetime
    failure: Failure


@dataclass(frozen=True, slots=True)
class Die:
    """Stop automatically, hand to an operator."""

    failure: Failure


Verdict = Retry | WaitOut | Die

_CLASSES: tuple[tuple[type[Exception], FailureClass], ...] = (
    (TransientFailure, FailureClass.TRANSIENT),
    (EnvironmentalFailure, FailureClass.ENVIRONMENTAL),
    (DeterministicFailure, FailureClass.DETERMINISTIC),
    (JobFailure, FailureClass.TRANSIENT),
    # A bug in the handler: the same input runs into it again.
    (TypeError, FailureClass.DETERMINISTIC),
    (AttributeError, FailureClass.DETERMINISTIC),
    (NameError, FailureClass.DETERMINISTIC),
    (ImportError, FailureClass.DETERMINISTIC),
    (ArithmeticError, FailureClass.DETERMINISTIC),
    (LookupError, FailureClass.DETERMINISTIC),
    (ValueError, FailureClass.DETERMINISTIC),
    (NotImplementedError, FailureClass.DETERMINISTIC),
    (AssertionError, FailureClass.DETERMINISTIC),
)


def classify(error: BaseException) -> Failure:
    """The failure an exception stands for. What the table does not know is transient: attempts are bounded."""
    known = next((found for kind, found in _CLASSES if isinstance(error, kind)), FailureClass.TRANSIENT)
    code = error.code if isinstance(error, JobFailure) else type(error).__name__
    message = " ".join(str(error).split()) or type(error).__name__
    return Failure(known, code[:64], message[:MESSAGE_CUT], getattr(error, "retry_after", None))


def judge(failure: Failure, job: Job, policy: RetryPolicy, now: datetime, jitter: float) -> Verdict:
    """What follows a failed attempt of `job` (its `attempts` includes the failed one).

    jitter  a dice throw in [0, 1]: each delay is spread over [½, 1] of itself, so that a herd does not return at once
    A server's Retry-After is never undercut; nothing is planned beyond `deadline_at`.
    """
    if failure.failure_class is FailureClass.DETERMINISTIC:
        return Die(failure)
    environmental = failure.failure_class is FailureClass.ENVIRONMENTAL
    if not environmental and job.attempts >= job.max_attempts:
        return Die(failure)
    delay = policy.environmental if environmental else policy.delays[min(job.attempts, len(policy.delays) - 1)]
    at = now + max(delay * (0.5 + 0.5 * jitter), failure.retry_after or timedelta())
    if at >= job.deadline_at:
        return Die(
            Failure(
                FailureClass.MAX_AGE,
                failure.code,
                f"the next attempt would come after the deadline; last: {failure.message}"[:MESSAGE_CUT],
            )
        )
    return WaitOut(at, failure) if environmental else Retry(at, failure)
