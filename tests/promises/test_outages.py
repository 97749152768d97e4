"""The table is away for hours or days: what becomes of the jobs that wait for a worker."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from shared.domain.states import State
from shared.errors import StoreUnavailable
from tests.builders import DAY, HOUR, MINUTE, NOW, SECOND
from tests.lane import Lane, busy_at_first
from tests.world import World

LANES = ("exports.month-end", "webhooks.partner-a")


NO_RIGHT = PermissionError("AccessDeniedException: not authorized to perform dynamodb:UpdateItem")


UNREADABLE = ValueError("attribute 'state' is no State: 'archived'")


@pytest.mark.parametrize("queue", LANES)
@pytest.mark.parametrize("why", [StoreUnavailable("no answer"), NO_RIGHT, UNREADABLE], ids=lambda e: type(e).__name__)
def test_three_days_without_the_table_leave_each_job_queued_and_it_runs_within_a_quarter_of_an_hour_after(
    queue: str, why: Exception
) -> None:
    lane = Lane(World(queue=queue))
    jobs = [lane.submit(ordering_key=key) for key in ("a", "a", "a", "b")]
    lane.without_table(3 * DAY, why)
    assert {lane.found(job).state for job in jobs} == {State.QUEUED}
    assert lane.dead.messages == {}
    assert {len(lane.work.messages)} == {len(jobs)}
    took = lane.until(lambda: all(lane.found(job).state is State.COMPLETED for job in jobs))
    assert took <= 15 * MINUTE
    assert {lane.found(job).attempts for job in jobs} == {1}


@pytest.mark.parametrize("queue", LANES)
def test_what_the_table_cost_a_message_costs_its_job_nothing(queue: str) -> None:
    """Its first transient failure after the outage waits as its policy says, and no more."""
    lane = Lane(World(queue=queue, handler=busy_at_first(set())))
    job = lane.submit()
    lane.without_table(3 * DAY)
    lane.until(lambda: lane.found(job).state is State.RETRYING)
    assert lane.found(job).next_attempt_at == lane.world.clock.now() + 5 * SECOND
    lane.until(lambda: lane.found(job).state is State.COMPLETED)


@pytest.mark.parametrize("queue", LANES)
def test_a_job_that_waits_for_its_retry_when_the_table_goes_runs_when_it_is_back(queue: str) -> None:
    lane = Lane(World(queue=queue, handler=busy_at_first(set())))
    job = lane.submit()
    lane.until(lambda: lane.found(job).state is State.RETRYING)
    lane.without_table(3 * DAY)
    assert lane.found(job).state is State.RETRYING
    assert lane.until(lambda: lane.found(job).state is State.COMPLETED) <= 15 * MINUTE


def test_a_message_comes_back_later_each_time_the_table_does_not_answer_up_to_a_quarter_of_an_hour() -> None:
    lane = Lane(World(queue="emails.high"))
    job = lane.submit()
    shown: list[timedelta] = []
    plain = lane.sqs.receive

    def receive(*given: Any) -> Any:
        got = plain(*given)
        shown.extend(lane.world.clock.now() - NOW for _ in got)
        return got

    lane.sqs.receive = receive  # type: ignore[method-assign]
    lane.without_table(12 * HOUR)
    waits = [later - earlier for earlier, later in pairwise(shown)]
    assert waits[0] <= 40 * SECOND, "the first time it comes back with its lease"
    assert all(later >= earlier for earlier, later in pairwise(waits))
    assert max(waits) <= 15 * MINUTE + 10 * SECOND, "and what one delivery tries"
    assert lane.message(job).receives < 70


def test_a_worker_that_has_the_job_brings_it_back_with_its_lease_whatever_its_message_went_through() -> None:
    """The table was there when the job was leased: what ends then is no long absence yet."""
    lane = Lane(World(queue="webhooks.partner-a"))
    lane.world.handler = lambda payload, run: setattr(lane.table, "broken", StoreUnavailable("gone"))
    job = lane.submit()
    lane.throttled(job, 200)
    lane.for_(SECOND)
    assert lane.found(job).state is State.RUNNING
    assert lane.message(job).visible_at <= lane.world.clock.now() + 33 * SECOND


@pytest.mark.parametrize("queue", LANES)
def test_a_record_that_nobody_can_ever_read_ends_in_the_dlq_for_a_human_before_sqs_forgets_its_message(
    queue: str,
) -> None:
    lane = Lane(World(queue=queue))
    lane.submit()
    lane.without_table(lane.queue.message_retention, UNREADABLE)
    assert len(lane.dead.messages) == 1
    lane.table.broken = UNREADABLE
    assert lane.sweep_dead_letters() == []
    assert len(lane.dead.messages) == 1, "the sweeper cannot read it either, and leaves it there"
