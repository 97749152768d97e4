"""judge() for any job, failure and throw of the dice."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.domain.retry import DEFAULT_POLICY, Die, Failure, FailureClass, Retry, RetryPolicy, WaitOut, judge
from tests.builders import NOW, a_running_job

CLASSES = st.sampled_from([FailureClass.TRANSIENT, FailureClass.ENVIRONMENTAL, FailureClass.DETERMINISTIC])
FAILURES = st.builds(
    Failure, CLASSES, st.just("code"), st.just("message"), st.none() | st.timedeltas(timedelta(), timedelta(days=2))
)
POLICIES = st.lists(st.timedeltas(timedelta(), timedelta(hours=6)), max_size=8).map(
    lambda delays: RetryPolicy((timedelta(), *delays))
)
JITTER = st.floats(0, 1, exclude_max=True)


@given(FAILURES, POLICIES, JITTER, st.integers(1, 12), st.timedeltas(timedelta(seconds=1), timedelta(days=2)))
def test_a_verdict_keeps_every_bound(failure, policy, jitter, attempts, left) -> None:
    job = a_running_job(attempts=attempts, max_attempts=policy.max_attempts, deadline_at=NOW + left)
    match judge(failure, job, policy, NOW, jitter):
        case Retry(at) | WaitOut(at) as verdict:
            assert failure.failure_class is not FailureClass.DETERMINISTIC
            assert at < job.deadline_at, "nothing is planned beyond the deadline"
            assert at - NOW >= (failure.retry_after or timedelta()), "a Retry-After is never undercut"
            if isinstance(verdict, Retry):
                assert attempts < policy.max_attempts, "attempts are bounded"
                assert at - NOW >= policy.delays[attempts] / 2
            else:
                assert failure.failure_class is FailureClass.ENVIRONMENTAL
        case Die(final):
            deterministic = failure.failure_class is FailureClass.DETERMINISTIC
            used_up = attempts >= policy.max_attempts and failure.failure_class is FailureClass.TRANSIENT
            assert deterministic or used_up or final.failure_class is FailureClass.MAX_AGE


@given(JITTER)
def test_the_default_schedule_is_spread_over_half_to_whole_of_each_delay(jitter: float) -> None:
    for attempts, seconds in ((1, 5), (2, 30), (3, 120), (4, 600), (5, 3600)):
        job = a_running_job(attempts=attempts)
        verdict = judge(Failure(FailureClass.TRANSIENT, "c", "m"), job, DEFAULT_POLICY, NOW, jitter)
        assert isinstance(verdict, Retry)
        assert seconds / 2 <= (verdict.at - NOW).total_seconds() <= seconds
