"""judge() for any job, failure and throw of the dice."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.retry import (
    DEFAULT_POLICY,
    HERD_SPREAD,
    Die,
    Failure,
    FailureClass,
    Retry,
    RetryPolicy,
    WaitOut,
    judge,
)
from shared.errors import LONGEST_RETRY_AFTER, DeclarationError
from shared.jobs import Catalogue
from tests.builders import NOW, a_running_job

CLASSES = st.sampled_from(FailureClass)
FAILURES = st.builds(
    Failure,
    CLASSES,
    st.just("code"),
    st.just("message"),
    st.none() | st.timedeltas(timedelta(), timedelta(days=2)),
    no_sooner=st.just(timedelta()) | st.timedeltas(timedelta(), timedelta(hours=1)),
)
DELAYS = st.lists(st.timedeltas(timedelta(), timedelta(hours=6)), max_size=8).map(tuple)
POLICIES = st.builds(
    lambda delays, own: RetryPolicy((timedelta(), *delays), by_code={"code": own} if own else {}), DELAYS, DELAYS
)
JITTER = st.floats(0, 1, exclude_max=True)
MAY_GO_ON = (FailureClass.TRANSIENT, FailureClass.ENVIRONMENTAL)


@given(FAILURES, POLICIES, JITTER, st.integers(1, 12), st.timedeltas(timedelta(seconds=1), timedelta(days=2)))
def test_a_verdict_keeps_every_bound(failure, policy, jitter, attempts, left) -> None:
    job = a_running_job(attempts=attempts, max_attempts=policy.max_attempts, deadline_at=NOW + left)
    match judge(failure, job, policy, NOW, jitter):
        case Retry(at) | WaitOut(at) as verdict:
            assert failure.failure_class in MAY_GO_ON
            assert at < job.deadline_at, "nothing is planned beyond the deadline"
            assert at - NOW >= failure.no_sooner, "until then something of the attempt may still run"
            asked = failure.retry_after or timedelta()
            if asked < left:
                assert at - NOW >= asked, "a Retry-After is not undercut"
            else:
                assert at - NOW >= left * 0.79, "one beyond its age is cut to what that allows"
                assert "asked to wait" in verdict.failure.message, "and the record says so"
            if isinstance(verdict, Retry):
                assert attempts < policy.max_attempts, "attempts are bounded"
                assert at - NOW >= policy.delay(failure, attempts) / 2
                longest = policy.delay(failure, attempts) + HERD_SPREAD
                assert at - NOW <= max(asked, failure.no_sooner) + longest
            else:
                assert failure.failure_class is FailureClass.ENVIRONMENTAL
        case Die(final):
            used_up = attempts >= policy.max_attempts and failure.failure_class is FailureClass.TRANSIENT
            assert failure.failure_class not in MAY_GO_ON or used_up or final.failure_class is FailureClass.MAX_AGE
            if failure.failure_class in MAY_GO_ON and not used_up:
                assert left <= max(policy.outage(timedelta()), policy.delay(failure, attempts)) + HERD_SPREAD + (
                    failure.no_sooner
                ), "no server's wish alone ends a job"


@pytest.mark.parametrize("asked", [timedelta(seconds=200_000), LONGEST_RETRY_AFTER], ids=["200000", "epoch-second"])
@given(jitter=JITTER)
@settings(deadline=None)
def test_a_retry_after_beyond_a_jobs_age_kills_it_at_no_first_attempt(asked: timedelta, jitter: float) -> None:
    """It looks again within what its age allows, a tenth of that left for its start, and its record says why."""
    job = a_running_job(attempts=1, max_attempts=8, deadline_at=NOW + timedelta(hours=24))
    verdict = judge(
        Failure(FailureClass.TRANSIENT, "http-429", "busy", asked, told=True), job, DEFAULT_POLICY, NOW, jitter
    )
    assert isinstance(verdict, Retry)
    assert timedelta(hours=19) < verdict.at - NOW <= timedelta(hours=21, minutes=36)
    assert verdict.failure.message.startswith(f"asked to wait {asked // timedelta(hours=1)} h, its age allows ")
    assert verdict.failure.message.endswith("; busy")


def test_what_an_attempt_itself_must_wait_for_is_never_cut() -> None:
    """A hung handler may run until its process ends: its retry comes after that, or not at all."""
    job = a_running_job(attempts=1, deadline_at=NOW + timedelta(minutes=5))
    hung = Failure(FailureClass.TRANSIENT, "deadline-exceeded", "no end", no_sooner=timedelta(minutes=6))
    verdict = judge(hung, job, DEFAULT_POLICY, NOW, 0.5)
    assert isinstance(verdict, Die)
    assert verdict.failure.failure_class is FailureClass.MAX_AGE


@given(JITTER)
def test_the_default_schedule_is_spread_over_half_to_whole_of_each_delay_or_over_twelve_seconds(jitter: float) -> None:
    for attempts, seconds in ((1, 5), (2, 30), (3, 120), (4, 600), (5, 3600)):
        job = a_running_job(attempts=attempts)
        verdict = judge(Failure(FailureClass.TRANSIENT, "c", "m"), job, DEFAULT_POLICY, NOW, jitter)
        assert isinstance(verdict, Retry)
        assert seconds / 2 <= (verdict.at - NOW).total_seconds() <= max(seconds, seconds / 2 + 12)


EVERY_TYPE = {name: job_type.policy for name, job_type in Catalogue().all().items()} | {"default": DEFAULT_POLICY}


@pytest.mark.parametrize("attempts", [1, 2, 3])
@pytest.mark.parametrize("policy", EVERY_TYPE.values(), ids=EVERY_TYPE)
@pytest.mark.parametrize("retry_after", [None, timedelta(seconds=30)])
def test_a_herd_of_40_000_does_not_come_back_in_one_second(
    retry_after: timedelta | None, policy: RetryPolicy, attempts: int
) -> None:
    """All fail in the same second; a server may have told them all the same Retry-After."""
    dice, herd = random.Random(7), 40_000
    job = a_running_job(attempts=attempts)
    failure = Failure(FailureClass.TRANSIENT, "http-503", "m", retry_after)
    seconds: Counter[int] = Counter()
    for _ in range(herd):
        verdict = judge(failure, job, policy, NOW, dice.random())
        assert isinstance(verdict, Retry)
        assert verdict.at - NOW >= (retry_after or timedelta())
        seconds[int((verdict.at - NOW).total_seconds())] += 1
    assert max(seconds.values()) <= herd / 10


def test_an_outage_is_looked_at_ever_more_slowly_and_spends_no_attempt_until_max_age() -> None:
    failure = Failure(FailureClass.ENVIRONMENTAL, "quota", "gone")
    now, looks = NOW, []
    while True:
        job = a_running_job(attempts=6, first_error_at=NOW if looks else None)
        verdict = judge(failure, job, DEFAULT_POLICY, now, 1.0)
        if isinstance(verdict, Die):
            break
        assert isinstance(verdict, WaitOut)
        looks.append((verdict.at - now).total_seconds() / 60)
        now = verdict.at
    assert looks[:5] == [5, 5, 10, 20, 40]
    assert set(looks[5:]) == {60}
    assert verdict.failure.failure_class is FailureClass.MAX_AGE


def test_a_type_may_wait_otherwise_for_failures_of_one_code() -> None:
    policy = RetryPolicy(DEFAULT_POLICY.delays, by_code={"http-429": (timedelta(minutes=5), timedelta(minutes=20))})
    waits = [policy.delay(Failure(FailureClass.TRANSIENT, "http-429", ""), n) for n in (1, 2, 3)]
    assert waits == [timedelta(minutes=5), timedelta(minutes=20), timedelta(minutes=20)]
    assert policy.delay(Failure(FailureClass.TRANSIENT, "other", ""), 1) == timedelta(seconds=5)


def test_exponential_waits_1_s_2_s_4_s_up_to_the_longest() -> None:
    policy = RetryPolicy.exponential(timedelta(seconds=1), 6, longest=timedelta(seconds=10))
    assert [delay.total_seconds() for delay in policy.delays] == [0, 1, 2, 4, 8, 10]
    assert policy.max_attempts == 6
    assert RetryPolicy.exponential(timedelta(seconds=1), 1).delays == (timedelta(),)
    steep = RetryPolicy.exponential(timedelta(seconds=2), 25, factor=5.0)
    assert steep.delays[-1] == timedelta(hours=1)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"delays": ()}, "a delay per attempt"),
        ({"delays": (timedelta(seconds=1),)}, "the first of them 0"),
        ({"delays": (timedelta(), timedelta(seconds=-1))}, "negative"),
        ({"delays": (timedelta(),) * 51}, "more than 50"),
        ({"delays": (timedelta(),), "environmental": (timedelta(), timedelta(hours=1))}, "environmental"),
        ({"delays": (timedelta(),), "environmental": (timedelta(hours=2), timedelta(hours=1))}, "environmental"),
        ({"delays": (timedelta(),), "spread": timedelta(seconds=-1)}, "spread"),
        ({"delays": (timedelta(),), "by_code": {"x": ()}}, "'x' are empty"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(fields, why) -> None:
    with pytest.raises(DeclarationError, match=why):
        RetryPolicy(**fields)
