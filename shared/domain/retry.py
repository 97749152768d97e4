"""Retry, wait out an outage, or stop: decided here from values alone, acted on by operations/run.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.domain.job import MESSAGE_CUT, Job
from shared.errors import DeclarationError

MOST_ATTEMPTS = 50


class FailureClass(StrEnum):
    """Why an attempt failed, in the first article's classes; the last three are the system's own findings."""

    TRANSIENT = "transient"
    DETERMINISTIC = "deterministic"
    ENVIRONMENTAL = "environmental"
    STALLED = "stalled"  # its worker vanished, more than once in a row
    NEVER_RAN = "never-ran"  # SQS gave up on the message before any worker could start it
    MAX_AGE = "max-age"  # its next attempt would come after its deadline
    UNKNOWN_OUTCOME = "unknown-outcome"  # an at-most-once effect was interrupted: a human must look


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt: its class, a short stable code for grouping, one line for a person."""

    failure_class: FailureClass
    code: str
    message: str
    retry_after: timedelta | None = None


HERD_SPREAD = timedelta(seconds=12)
"""At most a tenth of a herd comes back in any second."""

SLOW = (timedelta(minutes=5), timedelta(hours=1))
"""The first and the longest wait for something outside that is off; between them, as long as it has been off."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """delays[n] is waited before attempt n + 1 (delays[0] before the first, so always 0); as many attempts as delays.

    environmental  the shortest and the longest wait between looks while something outside is off: each is as long as
                   it has been off so far, which doubles them without a counter; spends no attempt, ends with max age
    by_code        other delays for failures of one code ("rate-limited"); attempts stay bounded by `delays`
    spread         jitter takes each delay from its half over the other half, but over no less time than this: half of
                   5 s would bring 40,000 jobs back in two and a half
    """

    delays: tuple[timedelta, ...]
    environmental: tuple[timedelta, timedelta] = SLOW
    by_code: Mapping[str, tuple[timedelta, ...]] = field(default_factory=dict)
    spread: timedelta = HERD_SPREAD

    def __post_init__(self) -> None:
        if not self.delays or self.delays[0]:
            raise DeclarationError("a retry policy needs a delay per attempt, the first of them 0")
        every = [*self.delays, *(delay for delays in self.by_code.values() for delay in delays)]
        if any(delay < timedelta() for delay in every):
            raise DeclarationError("a retry policy's delays cannot be negative")
        if not timedelta(seconds=1) <= self.environmental[0] <= self.environmental[1]:
            raise DeclarationError("a retry policy's environmental waits are a shortest of 1 s or more, and a longest")
        if len(self.delays) > MOST_ATTEMPTS:
            raise DeclarationError(f"a retry policy of more than {MOST_ATTEMPTS} attempts: no one would hear of it")
        if self.spread < timedelta():
            raise DeclarationError("a retry policy's spread cannot be negative")
        if empty := [code for code, delays in self.by_code.items() if not delays]:
            raise DeclarationError(f"a retry policy's delays for {empty[0]!r} are empty")

    @classmethod
    def exponential(
        cls, base: timedelta, attempts: int, *, factor: float = 2.0, longest: timedelta = timedelta(hours=1)
    ) -> RetryPolicy:
        """`attempts` in all, the waits between them base, base × factor, … up to `longest`: 1 s, 2 s, 4 s."""
        delays, wait = [timedelta()], base
        for _ in range(attempts - 1):
            delays.append(min(wait, longest))
            wait = delays[-1] * factor
        return cls(tuple(delays))

    @property
    def max_attempts(self) -> int:
        """Attempts that count, the first included."""
        return len(self.delays)

    def delay(self, failure: Failure, attempts: int) -> timedelta:
        """The wait after this many attempts, before jitter."""
        delays = self.by_code.get(failure.code, self.delays[1:] or self.delays)
        return delays[min(attempts - 1, len(delays) - 1)]

    def outage(self, off_for: timedelta) -> timedelta:
        """The wait until the next look at something that has been off for so long."""
        shortest, longest = self.environmental
        return min(max(off_for, shortest), longest)


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


def judge(failure: Failure, job: Job, policy: RetryPolicy, now: datetime, jitter: float) -> Verdict:
    """What follows a failed attempt of `job` (its `attempts` includes the failed one).

    jitter  a dice throw in [0, 1]: each delay is spread over [½, 1] of itself, or over the policy's `spread` where that
            is longer, so that a herd does not return at once
    A server's Retry-After is never undercut, and jitter comes on top of it; nothing is planned beyond `deadline_at`.
    """
    if failure.failure_class not in (FailureClass.TRANSIENT, FailureClass.ENVIRONMENTAL):
        return Die(failure)
    environmental = failure.failure_class is FailureClass.ENVIRONMENTAL
    if not environmental and job.attempts >= job.max_attempts:
        return Die(failure)
    delay = policy.outage(now - (job.first_error_at or now)) if environmental else policy.delay(failure, job.attempts)
    later = jitter * max(delay * 0.5, policy.spread)
    wait = max(delay * 0.5, failure.retry_after or timedelta()) + later
    if wait >= job.deadline_at - now:
        return Die(
            Failure(
                FailureClass.MAX_AGE,
                failure.code,
                f"the next attempt would come after the deadline; last: {failure.message}"[:MESSAGE_CUT],
            )
        )
    return WaitOut(now + wait, failure) if environmental else Retry(now + wait, failure)
