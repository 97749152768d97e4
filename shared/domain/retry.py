"""Retry, wait out an outage, or stop: decided here from values alone, acted on by operations/run/end.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
    """One failed attempt: its class, a short stable code for grouping, one line for a person.

    told         the message is the job author's or ours, so the caller may read it; a foreign exception's is for the
                 operator alone
    retry_after  what a server asked for; a job that would be too old by then looks again before
    no_sooner    what must not be undercut: until then something of this attempt may still run
    """

    failure_class: FailureClass
    code: str
    message: str
    retry_after: timedelta | None = None
    told: bool = False
    no_sooner: timedelta = timedelta()

    @property
    def for_callers(self) -> str:
        """In a line that every caller may read."""
        return f"{self.code}: {self.message}"[:MESSAGE_CUT] if self.told else self.code


HERD_SPREAD = timedelta(seconds=12)
"""At most a tenth of a herd comes back in any second."""

LAST_TENTH = 0.1
"""Of what is left of its age a job keeps this for its start, when a server asks it to wait beyond: the wait ends in
the tenth before, spread over all of that.
"""

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
    A server's Retry-After is not undercut, and jitter comes on top of it, unless the job would be too old by then: it
    is cut to what the age allows, and the message says so. Nothing is planned beyond `deadline_at`.
    """
    if failure.failure_class not in (FailureClass.TRANSIENT, FailureClass.ENVIRONMENTAL):
        return Die(failure)
    environmental = failure.failure_class is FailureClass.ENVIRONMENTAL
    if not environmental and job.attempts >= job.max_attempts:
        return Die(failure)
    left = job.deadline_at - now
    delay = policy.outage(now - (job.first_error_at or now)) if environmental else policy.delay(failure, job.attempts)
    later = jitter * max(delay * 0.5, policy.spread)
    shortest = max(delay * 0.5, failure.no_sooner) + later
    if shortest >= left:
        return Die(_too_old(failure))
    asked = failure.retry_after or timedelta()
    if asked < left:
        wait = max(shortest, asked + min(later, (left - asked) / 2))
    else:
        wait = max(shortest, left * (1 - LAST_TENTH * (2 - jitter)))
        failure = _cut(failure, wait)
    return WaitOut(now + wait, failure) if environmental else Retry(now + wait, failure)


def _too_old(failure: Failure) -> Failure:
    said = f"the next attempt would come after the deadline; last: {failure.message}"
    return replace(failure, failure_class=FailureClass.MAX_AGE, message=said[:MESSAGE_CUT])


def _cut(failure: Failure, wait: timedelta) -> Failure:
    said = f"asked to wait {_words(failure.retry_after or wait)}, its age allows {_words(wait)}; {failure.message}"
    return replace(failure, message=said[:MESSAGE_CUT])


def _words(wait: timedelta) -> str:
    seconds = wait // timedelta(seconds=1)
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60} min" if seconds < 36_000 else f"{seconds // 3600} h"
