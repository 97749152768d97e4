"""The sum of all that can spend a message's receives."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.waits import LONGEST_HIDE, OUTAGE, RECEIVE_LIMIT, elsewhere, hidden, plenty, shortest_defer, unready
from shared.queues import QUEUES, Queue

LANES = [QUEUES["emails.high"], QUEUES["webhooks.partner-a"]]
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
WAITS = st.one_of(
    st.builds(lambda seconds: lambda receives: seconds * SECOND, st.integers(0, 14 * 24 * 3600)),
    st.sampled_from([unready, elsewhere, lambda receives: timedelta()]),
)
"""What a worker may make of a message: a wait of its job, no answer, no room, behind another."""


def received(lane: Queue, waits: list[object], until: timedelta, most: int) -> int:
    """How often a message is received until then (or `most` times), going through these waits again and again."""
    receives, at = 0, timedelta()
    while at < until and receives < most:
        receives += 1
        wait = waits[receives % len(waits)]
        at += hidden(wait(receives), receives, lane.max_receives, lane.message_retention)  # type: ignore[operator]
    return receives


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
@given(waits=st.lists(WAITS, min_size=1, max_size=5))
def test_sqs_forgets_every_message_that_a_worker_hides_before_it_would_move_it_whatever_spent_its_receives(
    lane: Queue, waits: list[object]
) -> None:
    assert received(lane, waits, lane.message_retention, lane.max_receives + 1) <= lane.max_receives


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
@given(before=st.integers(0, 200))
def test_an_outage_as_long_as_is_promised_leaves_receives_for_the_jobs_own_waits(lane: Queue, before: int) -> None:
    receives, away = before, timedelta()
    while away < OUTAGE:
        receives += 1
        away += unready(receives)
    assert receives - before <= 303
    assert receives + RECEIVE_LIMIT + 1 < plenty(lane.max_receives, lane.message_retention) if before < 100 else True


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_what_nobody_can_read_is_moved_to_the_dlq_within_the_messages_retention(lane: Queue) -> None:
    takes = sum((unready(receives) for receives in range(1, lane.max_receives + 2)), timedelta())
    assert OUTAGE < takes < lane.message_retention


@given(wait=st.timedeltas(timedelta(), timedelta(days=14)), receives=st.integers(1, 431))
def test_a_hide_ends_with_its_wait_or_after_a_quarter_of_an_hour(wait: timedelta, receives: int) -> None:
    assert hidden(wait, receives, 600, timedelta(days=7)) == min(wait, LONGEST_HIDE)


@given(receives=st.integers(1, 1000), runs=st.integers(1, 1000))
def test_receives_that_leased_nothing_never_lengthen_a_jobs_waits(receives: int, runs: int) -> None:
    assert shortest_defer(receives, 1) == timedelta()
    assert shortest_defer(receives, runs) <= (runs - 1) * SECOND


def test_a_job_that_says_not_now_for_ever_is_called_less_than_a_thousand_times_in_fourteen_days_of_fifo() -> None:
    lane, at, runs = LANES[1], timedelta(), 0
    while at < lane.message_retention:
        runs += 1
        wait = shortest_defer(runs, runs)
        at += hidden(wait, runs, lane.max_receives, lane.message_retention)
    assert runs < lane.max_receives
    assert plenty(lane.max_receives, lane.message_retention) == lane.max_receives - math.ceil(14 * 24)
