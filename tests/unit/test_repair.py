"""What the sweeper finds wrong, and what it leaves alone: the pure decisions."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from shared.domain.doorbell import Bell
from shared.domain.job import Job, due_key
from shared.domain.repair import broken, broken_by_message
from shared.domain.states import FINAL, State
from tests.builders import NOW, a_job, a_running_job

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
RETENTION = timedelta(days=4)


def found(job: Job, after: timedelta, queue_empty: bool = False) -> tuple[str, str] | None:
    one = broken(job, NOW + after, queue_empty=queue_empty, retention=RETENTION, stall_limit=1)
    return None if one is None else (one.invariant, one.repair)


def published(**fields: Any) -> Job:
    return a_job(**({"outbox": None, "published_at": NOW} | fields))


def retrying(**fields: Any) -> Job:
    waits = {"state": State.RETRYING, "next_attempt_at": NOW, "run": 1, "attempts": 1, "outbox": None}
    return a_job(**(waits | {"published_at": NOW} | fields))


def test_a_doorbell_that_was_not_rung_for_a_minute_is_rung_again() -> None:
    assert found(a_job(), MINUTE) is None
    assert found(a_job(), MINUTE + SECOND) == ("unpublished", "ring-again")


def test_a_delayed_jobs_lost_ring_is_repaired_before_its_time_comes() -> None:
    """Its doorbell waits in the queue (DelaySeconds), so it must be there by then."""
    job = a_job(available_at=NOW + 10 * MINUTE)
    assert found(job, MINUTE) is None
    assert found(job, MINUTE + SECOND) == ("unpublished", "ring-again")


def test_the_patience_with_a_ring_counts_from_the_ring_and_not_from_the_jobs_age() -> None:
    old = a_job(available_at=NOW - 5 * HOUR, created_at=NOW - 5 * HOUR, queued_at=NOW)
    assert found(old, MINUTE) is None
    assert found(old, MINUTE + SECOND) == ("unpublished", "ring-again")


def test_a_dead_job_without_its_copy_in_the_dlq_is_rung_again() -> None:
    job = a_job(state=State.DEAD, dead_at=NOW + HOUR)
    assert found(job, HOUR + MINUTE) is None
    assert found(job, HOUR + MINUTE + SECOND) == ("unpublished", "ring-again")


def test_ringing_again_backs_off_so_that_a_slow_stream_is_not_flooded() -> None:
    rung, job = [], a_job()
    for minute in range(1, 24 * 60):
        at = minute * MINUTE + SECOND
        if found(job, at) is not None:
            rung.append(minute)
            job = a_job(rung_at=NOW + at)
    assert rung[0] == 1
    assert rung[:6] == [1, 3, 7, 15, 31, 63], "each wait as long as all before it"
    assert all(later - earlier <= 62 for earlier, later in pairwise(rung)), "and never longer than an hour"


def test_after_a_month_without_a_relay_a_lost_ring_is_rung_again_within_the_hour() -> None:
    job = a_job(rung_at=NOW + timedelta(days=31))
    assert found(job, timedelta(days=31, hours=1)) is None
    assert found(job, timedelta(days=31, hours=1, seconds=1)) == ("unpublished", "ring-again")


def test_a_published_job_in_a_busy_queue_is_left_to_its_message_however_long_it_waits() -> None:
    assert found(published(), RETENTION) is None
    assert found(retrying(), RETENTION) is None


@pytest.mark.parametrize(
    ("job", "repair"), [(published(), "ring-again"), (retrying(), "redispatch")], ids=["queued", "retrying"]
)
def test_a_doorbell_is_lost_when_its_queue_is_empty_or_its_retention_passed(job: Job, repair: str) -> None:
    assert found(job, 5 * MINUTE, queue_empty=True) is None, "the counts of SQS lag"
    assert found(job, 5 * MINUTE + SECOND, queue_empty=True) == ("lost-doorbell", repair)
    assert found(job, RETENTION + SECOND) == ("lost-doorbell", repair)


def test_a_delayed_job_in_an_empty_queue_is_not_lost_before_its_time() -> None:
    """SQS counts delayed messages apart, and late."""
    job = published(available_at=NOW + 15 * MINUTE)
    assert found(job, 19 * MINUTE, queue_empty=True) is None
    assert found(job, 21 * MINUTE, queue_empty=True) == ("lost-doorbell", "ring-again")


def test_an_unpublished_retry_gets_a_new_doorbell_only_once_its_wait_is_over() -> None:
    job = retrying(outbox="open", published_at=None, next_attempt_at=NOW + 30 * SECOND)
    assert found(job, 90 * SECOND) is None
    assert found(job, 91 * SECOND) == ("unpublished", "redispatch")


@pytest.mark.parametrize(
    ("fields", "repair"),
    [
        ({}, "requeue"),
        ({"stalls": 1}, "dead-letter"),
        ({"attempts": 6}, "dead-letter"),
        ({"deadline_at": NOW + MINUTE}, "expire"),
        ({"cancel_request": {"who": "op", "why": "stop"}, "stalls": 1}, "cancel"),
    ],
)
def test_a_lease_that_nobody_took_over_in_a_minute_is_ended_by_the_sweeper(fields: dict[str, Any], repair: str) -> None:
    job = a_running_job(**fields)
    assert found(job, 30 * SECOND + 3 * SECOND + MINUTE - SECOND) is None, "its message may still bring a worker"
    assert found(job, 30 * SECOND + 3 * SECOND + MINUTE) == ("expired-lease", repair)


@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING])
def test_a_job_that_two_ticks_did_not_promote_is_overdue(state: State) -> None:
    job = a_job(state=state, due_key="due#1", due_at=NOW, outbox=None)
    assert found(job, 2 * MINUTE) is None
    assert found(job, 2 * MINUTE + SECOND) == ("overdue", "promote")


@pytest.mark.parametrize("state", sorted(FINAL - {State.DEAD}))
def test_an_ended_job_breaks_nothing(state: State) -> None:
    assert found(a_job(state=state), timedelta(days=30), queue_empty=True) is None


CURRENT, OLDER = 3, 2


PARK, DROP, KEEP = "park", "drop", "keep"


def judged(job: Job | None, dispatch: int = CURRENT, mark: bool = False) -> str:
    bell = Bell(job_id="job_1", dispatch=dispatch, type="invoice-export", payload_version=1, dead_letter=mark)
    found = broken_by_message(job, bell, NOW + MINUTE)
    return KEEP if found is None else found.repair


def test_only_the_current_unmarked_doorbell_of_a_job_that_nobody_holds_parks_it() -> None:
    in_due = retrying(dispatch=CURRENT, due_key=due_key("job_1"), due_at=NOW)
    held = a_running_job(dispatch=CURRENT, lease_expires_at=NOW + HOUR)
    for job in (published(dispatch=CURRENT), retrying(dispatch=CURRENT), a_running_job(dispatch=CURRENT)):
        assert judged(job) == PARK
        assert judged(job, OLDER) == DROP
        assert judged(job, mark=True) == DROP, "the copy of a former death"
    assert judged(held) == KEEP, "its worker may complete it"
    assert judged(in_due) == DROP


def test_a_dlq_message_stays_only_while_it_tells_the_truth() -> None:
    dead = a_job(state=State.DEAD, dispatch=CURRENT)
    assert judged(dead, mark=True) == KEEP
    assert judged(dead, OLDER, mark=True) == DROP
    assert judged(dead) == DROP
    for state in FINAL - {State.DEAD}:
        assert judged(a_job(state=state, dispatch=CURRENT), mark=True) == DROP


def test_what_no_record_explains_is_left_for_a_human() -> None:
    assert judged(None) == KEEP
    assert judged(published(dispatch=OLDER), CURRENT) == KEEP, "a record restored from an older backup"
