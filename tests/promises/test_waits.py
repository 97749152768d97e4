"""Where waits are spent, and who ends them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.adapters.wire import UnreadableRecordError
from shared.domain.outcome import Outcome
from shared.domain.retry import RetryPolicy
from shared.domain.run import Defer
from shared.domain.states import CANCEL, OUTBOX_OPEN, State
from shared.domain.writes import Write
from shared.errors import EnvironmentalFailure, PromotionFailed, TransientFailure
from shared.jobs import JobType
from shared.operations.promote import PromoterPorts, promote
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.submit import MAX_AGE, JobRequest, submit
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.queues import MAX_DELAY, QUEUES
from tests.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    MemoryDeadLetters,
    MemoryDoorbell,
    RecordedLog,
    TestClock,
    a_job,
    a_message,
    a_minute_left,
)
from tests.lane import Lane
from tests.moves import changes_for, seen_for
from tests.world import OneType, Order, World, raising, refuse_to_run


def waiting(seconds: int, **fields: object) -> World:
    """A handler that fails, on a policy whose one wait is this long."""
    policy = RetryPolicy((timedelta(), timedelta(seconds=seconds)), spread=timedelta())
    return World(handler=raising(TransientFailure("x")), policy=policy, **fields)  # type: ignore[arg-type]


LOOK_AHEAD = timedelta(minutes=3)


LANES = {"exports.month-end": timedelta(seconds=2), "webhooks.partner-a": 2 * MINUTE}
"""How late a job may start at most, queueing apart."""


class InLane(OneType):
    """The one type, in the lane the test chooses."""

    lane = ""

    def get(self, name: str) -> JobType | None:
        found = super().get(name)
        return found and replace(found, queue=QUEUES[self.lane])


def ticks(until: datetime) -> list[datetime]:
    """The promoter's: some while nothing is near, then 119 s apart, the worst that EventBridge Scheduler makes of a
    minute.
    """
    far = [NOW + n * 5 * HOUR for n in range(1, int((until - NOW) / HOUR / 5))]
    near = [until - 30 * MINUTE + n * timedelta(seconds=119) for n in range(1, 20)]
    return far + near


def test_a_wait_of_60_s_stays_on_its_message_and_a_longer_one_leaves_it() -> None:
    for seconds, outcome, dispatch in ((60, Outcome.RETRYING, 1), (61, Outcome.RETRYING_IN_DUE, 2)):
        world = waiting(seconds)
        message = world.submitted(a_job())
        assert world.deliver(message) is outcome
        job = world.found(message)
        assert (job.state, job.dispatch, job.due_at) == (
            State.RETRYING,
            dispatch,
            job.next_attempt_at if dispatch == 2 else None,
        )
        assert (job.open_key is None) == (dispatch == 2)


def test_a_message_of_a_job_that_waits_in_due_is_stale_so_it_may_go() -> None:
    world = waiting(600)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING_IN_DUE
    assert world.deliver(message) is Outcome.STALE


def test_on_a_fifo_lane_every_wait_keeps_its_place_on_the_message() -> None:
    world = waiting(3600, queue="webhooks.partner-a")
    message = world.submitted(a_job(queue="webhooks.partner-a"))
    assert world.deliver(message) is Outcome.RETRYING
    assert world.found(message).next_attempt_at == NOW + timedelta(hours=1)
    hidden = []
    for receives in range(2, 6):
        hidden.append(world.mailbox.hidden[message.message_id])
        world.clock.forward(hidden[-1])
        assert world.deliver(replace(message, receives=receives)) is (
            Outcome.WAITING if receives < 5 else Outcome.RETRYING
        )
    assert hidden == [15 * MINUTE] * 4, "a quarter of an hour at a time, to meet what happens to the job meanwhile"


def test_past_20_receives_a_wait_on_a_standard_lane_makes_a_fresh_message() -> None:
    world = waiting(5)
    message = world.submitted(a_job())
    assert world.deliver(replace(message, receives=21)) is Outcome.RETRYING_IN_DUE
    fresh = world.when_due(message)
    assert fresh.bell is not None
    assert fresh.bell.dispatch == 3


def test_past_20_receives_a_wait_of_no_time_on_a_standard_lane_makes_a_fresh_message_too() -> None:
    world = World(handler=lambda payload, run: Defer(timedelta()))
    message = world.submitted(a_job())
    assert world.deliver(replace(message, receives=20)) is Outcome.DEFERRED
    assert world.deliver(replace(message, receives=21)) is Outcome.DEFERRED_IN_DUE


@pytest.mark.parametrize("queue", ["exports.month-end", "webhooks.partner-a"])
def test_a_handler_that_always_says_not_now_is_called_ever_less_often_and_its_message_is_never_moved_away(
    queue: str,
) -> None:
    ran: list[datetime] = []

    def not_now(payload: Order, run: Any) -> Defer:
        ran.append(lane.world.clock.now())
        return Defer(timedelta())

    lane = Lane(World(handler=not_now, queue=queue))
    job = lane.submit()
    lane.for_(timedelta(hours=1))
    assert len(ran) < 420, "about one call in ten seconds"
    assert lane.found(job).state in (State.RETRYING, State.QUEUED)
    if lane.queue.fifo:
        lane.for_(timedelta(days=12))
    assert lane.dead.messages == {}
    assert lane.found(job).state in (State.RETRYING, State.QUEUED)
    lane.world.handler = lambda payload, run: None
    lane.until(lambda: lane.found(job).state is State.COMPLETED)


def test_a_handlers_first_not_now_of_no_time_is_obeyed_to_the_letter() -> None:
    world = World(handler=lambda payload, run: Defer(timedelta()))
    message = world.submitted(a_job())
    assert world.deliver(replace(message, receives=9)) is Outcome.DEFERRED, "receives that leased nothing do not count"
    assert world.found(message).next_attempt_at == NOW
    world.deliver(replace(message, receives=10))
    assert world.found(message).next_attempt_at == NOW + SECOND


def test_a_floor_under_short_waits_never_reaches_beyond_the_deadline() -> None:
    world = World(handler=lambda payload, run: Defer(timedelta()))
    message = world.submitted(a_job(run=300, deadline_at=NOW + MINUTE))
    world.deliver(replace(message, receives=20))
    assert world.found(message).next_attempt_at == NOW + 19 * SECOND
    world = World(handler=lambda payload, run: Defer(timedelta()), queue="webhooks.partner-a")
    message = world.submitted(a_job(run=300, deadline_at=NOW + MINUTE, queue="webhooks.partner-a"))
    world.deliver(replace(message, receives=200))
    assert world.found(message).next_attempt_at == NOW + MINUTE


def test_retries_are_bounded_by_attempts_and_keep_the_schedule_that_was_declared() -> None:
    world = waiting(1, queue="webhooks.partner-a")
    message = world.submitted(a_job(queue="webhooks.partner-a", run=300))
    world.deliver(replace(message, receives=300))
    assert world.found(message).next_attempt_at == NOW + SECOND


def test_a_message_released_unstarted_again_and_again_comes_back_a_second_later_each_time() -> None:
    world = World(time_left=timedelta(seconds=3))
    message = world.submitted(a_job())
    hidden = []
    for receives in (1, 20, 21, 50, 300):
        assert world.run_batch(replace(message, receives=receives)) == [message.message_id]
        hidden.append(world.mailbox.hidden[message.message_id].total_seconds())
    assert hidden == [0, 0, 1, 30, 60]


def test_receives_that_never_ran_cost_no_attempt() -> None:
    world = World()
    message = replace(world.submitted(a_job()), receives=10)
    assert world.deliver(message) is Outcome.COMPLETED
    assert world.found(message).attempts == 1


def test_a_handlers_defer_spends_no_attempt_and_says_why() -> None:
    world = World(handler=lambda payload, run: Defer(timedelta(seconds=30), "partner closed until 9"))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEFERRED
    job = world.found(message)
    assert (job.attempts, job.reason, job.next_attempt_at) == (0, "partner closed until 9", NOW + 30 * SECOND)


@pytest.mark.parametrize("wrong", [timedelta(seconds=-1), 30, None])
def test_a_defer_of_no_duration_is_refused_by_name(wrong: object) -> None:
    world = World(handler=lambda payload, run: Defer(wrong))  # type: ignore[arg-type]
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "result-invalid"


def test_a_due_job_is_promoted_once_with_a_fresh_doorbell_and_one_not_due_is_left() -> None:
    world = waiting(600)
    message = world.submitted(a_job())
    world.deliver(message)
    assert world.promote() == 0
    world.clock.forward(timedelta(minutes=10))
    assert world.promote() == 1
    job = world.found(message)
    assert (job.state, job.dispatch, job.outbox, job.due_key) == (State.QUEUED, 3, "open", None)
    assert job.open_key is not None
    assert world.promote() == 0


def test_the_promoter_looks_ahead_on_standard_lanes_and_the_relay_gets_the_rest_as_delay() -> None:
    world = waiting(600)
    message = world.submitted(a_job())
    world.deliver(message)
    world.clock.forward(8 * MINUTE)
    assert world.promote(3 * MINUTE) == 1
    assert world.found(message).available_at == NOW + 10 * MINUTE


def test_a_retry_that_was_promoted_ahead_of_its_time_still_says_when_it_starts() -> None:
    world = waiting(600)
    message = world.submitted(a_job())
    world.deliver(message)
    world.clock.forward(8 * MINUTE)
    world.promote(3 * MINUTE)
    promoted = world.found(message)
    assert (promoted.state, promoted.next_attempt_at) == (State.QUEUED, NOW + 10 * MINUTE)
    world.clock.forward(2 * MINUTE)
    world.handler = lambda payload, run: None
    assert world.deliver(a_message(promoted)) is Outcome.COMPLETED
    assert world.found(message).next_attempt_at is None


def test_a_fifo_job_is_promoted_when_due_and_never_before() -> None:
    world = World(queue="webhooks.partner-a")
    job = a_job(
        queue="webhooks.partner-a", state=State.SCHEDULED, due_key="due#3", due_at=NOW + MINUTE, dispatch=0, outbox=None
    )
    world.store.submit(job, NOW)
    assert world.promote(3 * MINUTE) == 0
    world.clock.forward(MINUTE)
    assert world.promote(3 * MINUTE) == 1


def test_a_standard_job_behind_a_hundred_fifo_jobs_that_wait_is_promoted_in_time() -> None:
    world = World()
    for n in range(105):
        lane = {"queue": "webhooks.partner-a"} if n < 100 else {}
        soon = NOW + (n + 1) * SECOND
        world.store.submit(
            a_job(state=State.SCHEDULED, due_key="due#3", due_at=soon, dispatch=0, outbox=None, **lane), NOW
        )
    assert world.promote(3 * MINUTE) == 5


def test_a_record_nobody_can_read_keeps_none_behind_it_waiting_and_is_heard_of() -> None:
    world = World()
    jobs = [
        a_job(state=State.SCHEDULED, due_key="due#3", due_at=NOW - n * SECOND, dispatch=0, outbox=None)
        for n in range(3)
    ]
    for job in jobs:
        world.store.submit(job, NOW)
    plain_get = world.store.get

    def unreadable(job_id: str):  # type: ignore[no-untyped-def]
        if job_id == jobs[2].job_id:
            raise UnreadableRecordError("attribute 'state' is no State: 'archived'")
        return plain_get(job_id)

    world.store.get = unreadable  # type: ignore[method-assign]
    with pytest.raises(PromotionFailed, match=r"2 promoted, 1 not: .*archived"):
        world.promote()
    assert [plain_get(job.job_id).state for job in jobs[:2]] == [State.QUEUED] * 2  # type: ignore[union-attr]


def test_a_fifo_job_waits_no_longer_than_its_queue_keeps_messages() -> None:
    for queue in QUEUES.values():
        longest = MAX_AGE if queue.fifo else timedelta(minutes=1)
        assert queue.message_retention >= longest


def test_an_outage_met_after_a_replay_is_looked_at_soon_again() -> None:
    world = World(handler=raising(EnvironmentalFailure("quota")))
    long_ago = NOW - timedelta(days=3)
    dead = a_job(state=State.DEAD, dispatch=2, attempts=1, first_error_at=long_ago, dead_at=NOW, outbox=None)
    world.store.submit(dead, NOW)
    assert world.deliver(a_message(dead, dead_letter=True)) is Outcome.REPLAYED
    message = a_message(world.found(a_message(dead)))
    world.deliver(message)
    assert world.found(message).next_attempt_at == NOW + 5 * MINUTE


def test_a_job_of_a_type_nobody_knows_expires_with_its_deadline_instead_of_being_deferred_for_ever() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(type="unheard-of"))
    assert world.deliver(message) is Outcome.DEFERRED
    world.clock.forward(timedelta(days=10))
    assert world.deliver(message) is Outcome.EXPIRED


def test_a_defer_beyond_the_deadline_ends_with_the_deadline() -> None:
    world = World(handler=lambda payload, run: Defer(timedelta.max))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEFERRED_IN_DUE
    assert world.found(message).next_attempt_at == world.found(message).deadline_at
    fresh = world.when_due(message)
    assert world.deliver(fresh) is Outcome.EXPIRED


def test_a_job_cancelled_between_the_promoters_read_and_write_stays_cancelled() -> None:
    world = waiting(600)
    message = world.submitted(a_job())
    world.deliver(message)
    world.clock.forward(timedelta(minutes=10))
    plain_get = world.store.get

    def raced(job_id: str):  # type: ignore[no-untyped-def]
        job = plain_get(job_id)
        assert job is not None
        if job.state is State.RETRYING:
            world.store.apply(job_id, Write(CANCEL, seen_for(job), changes_for(CANCEL)))
        return job

    world.store.get = raced  # type: ignore[method-assign]
    assert world.promote() == 0
    assert plain_get(message.job_id).state is State.CANCELLED  # type: ignore[union-attr]


def test_a_promoted_job_runs_its_next_attempt_from_the_fresh_message_only() -> None:
    world = waiting(600)
    old = world.submitted(a_job())
    world.deliver(old)
    fresh = world.when_due(old)
    world.handler = lambda payload, run: None
    assert world.deliver(old) is Outcome.STALE
    assert world.deliver(fresh) is Outcome.COMPLETED
    assert world.found(fresh).attempts == 2
    assert world.found(fresh).dispatch == 3


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("ahead", [6 * HOUR, 7 * DAY, 90 * DAY])
def test_a_job_for_later_starts_once_at_its_time_and_is_nowhere_in_flight_until_then(
    ahead: timedelta, lane: str
) -> None:
    """SCENARIOS 18. Neither a message nor a worker holds it; the sweeper, which looks on, sees nothing wrong in it."""
    store, clock, doorbell, starts = MemoryJobStore(), TestClock(), MemoryDoorbell(), []
    world = World(handler=lambda p, run: starts.append(clock.now()), store=store, clock=clock, queue=lane)
    catalogue: Any = InLane(world.handler)
    catalogue.lane = lane
    request = JobRequest(type="invoice-export", payload={"tenantId": "a", "month": "2026-05"}, run_at=NOW + ahead)
    job = submit(request, catalogue=catalogue, store=store, now=NOW, entropy=bytes(10)).job
    relayed, seen = 0, RecordedLog()
    ports = {"store": store, "clock": clock, "log": seen, "queues": QUEUES}
    for at in ticks(NOW + ahead):
        clock.at = at
        sweep = sweep_job(
            job.job_id, SweeperPorts(dead_letters=MemoryDeadLetters(), meter=world.meter, **ports), queue_empty=True
        )  # type: ignore[arg-type]
        assert sweep is None, "what waits is not broken"
        promote(PromoterPorts(**ports), LOOK_AHEAD)  # type: ignore[arg-type]
        images, relayed = store.images[relayed:], len(store.images)
        records = [OutboxRecord({}, image) for image in images if image.outbox == OUTBOX_OPEN]
        if records:
            relay(records, RelayPorts(doorbell=doorbell, time_left=a_minute_left, **ports))  # type: ignore[arg-type]
            break
        assert world.found(a_message(job)).state is State.SCHEDULED
    ((_, ring),) = doorbell.sent
    assert ring.delay <= min(LOOK_AHEAD, MAX_DELAY)
    clock.forward(ring.delay)
    message = a_message(world.found(a_message(job)))
    assert world.deliver(message) is Outcome.COMPLETED
    assert world.deliver(message) is Outcome.STALE
    (started,) = starts
    assert timedelta() <= started - (NOW + ahead) <= LANES[lane]
