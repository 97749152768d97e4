"""A handler has the time that was declared, and no invocation is begun that it does not fit into."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.system import SystemClock
from shared.domain.retry import RetryPolicy
from shared.domain.states import LEASE, State
from shared.domain.writes import Write
from shared.errors import LeaseLost, StoreUnavailable
from shared.operations.run.watch import Running, Watch
from tests.builders import (
    NOW,
    SECOND,
    TestClock,
    a_job,
    a_message,
)
from tests.world import DEFAULT_LEASE, Order, World, refuse_to_run


def a_fresh_job(**fields: Any) -> Any:
    now = SystemClock().now()
    return a_job(created_at=now, run_at=now, available_at=now, deadline_at=now + timedelta(hours=1), **fields)


SHORT = timedelta(milliseconds=800)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end of the test, so that no hung handler outlives it."""
    event = threading.Event()
    yield event
    event.set()


def test_a_retry_of_a_hung_job_starts_only_after_its_process_ended_though_a_neighbour_insists() -> None:
    """The neighbour has ended (the watch no longer counts it) and insists on its record until its own, longer lease is
    over; so long the process, and with it the hung thread, lives on.
    """
    released = threading.Event()
    world = World(clock=SystemClock(), deadline=timedelta(milliseconds=600), lease=timedelta(seconds=9))
    kinds = {"hangs": timedelta(milliseconds=800)}
    plain = world.store.apply
    insisted = threading.Event()

    def apply(job_id: str, write: Write) -> Any:
        if write.move is LEASE and job_id == hangs.job_id:  # the lease of a type with a shorter one
            shorter = {"lease_expires_at": write.changes["started_at"] + kinds["hangs"]}
            write = replace(write, changes={**write.changes, **shorter})
        if write.move.name == "complete":
            insisted.set()
            raise StoreUnavailable("throttled: this one partition")
        return plain(job_id, write)

    world.store.apply = apply  # type: ignore[method-assign]
    world.handler = lambda payload, run: released.wait(20) and None if run.tenant == "hangs" else time.sleep(0.3)
    hangs, other = world.submitted(a_fresh_job(tenant="hangs")), world.submitted(a_fresh_job(tenant="other"))
    ended_at: list[Any] = []
    try:
        # the policy's own delay out of the way: what is asked is only that no retry starts beside the hung thread
        world.run_batch(
            hangs,
            other,
            pause=lambda for_: time.sleep(for_.total_seconds()),
            end_process=lambda: ended_at.append(SystemClock().now()),
            dice=lambda: 0.0,
        )
    finally:
        released.set()
    job = world.found(hangs)
    assert insisted.is_set()
    assert job.state is State.RETRYING
    assert ended_at
    assert job.next_attempt_at is not None
    assert job.next_attempt_at >= ended_at[0], f"{ended_at[0] - job.next_attempt_at} beside the hung thread"


def test_a_slow_answer_of_sqs_costs_a_handler_within_its_deadline_nothing() -> None:
    """Lease = deadline + margin, as every default is; scaled: 2.5 = 1 + 1.5 s. Each hide takes 2.4 s: as 3 x 5 s do
    for a lease of 20 + 10 s.
    """
    world = World(clock=SystemClock(), deadline=SECOND, lease=timedelta(seconds=2.5))
    plain = world.mailbox.hide

    def slow(messages: Any, for_: Any) -> Any:
        time.sleep(2.4)
        return plain(messages, for_)

    world.mailbox.hide = slow  # type: ignore[method-assign]
    world.handler = lambda payload, run: time.sleep(0.8)
    message = world.submitted(a_fresh_job())
    world.run_batch(message)
    assert world.ends == [], "the process was killed"
    assert world.found(message).state is State.COMPLETED, world.found(message).error_message


def test_a_job_whose_deadline_passed_while_its_message_was_being_hidden_does_not_start() -> None:
    """The time that the lease's condition compares with is read before the message is hidden, not after."""
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id))
    message = world.submitted(a_job(deadline_at=NOW + 10 * SECOND))
    plain = world.mailbox.hide

    def slow(messages: Any, for_: Any) -> Any:
        world.clock.forward(15 * SECOND)
        return plain(messages, for_)

    world.mailbox.hide = slow  # type: ignore[method-assign]
    world.deliver(message)
    assert not ran, "started five seconds after its deadline"


def test_insisting_on_an_end_leaves_the_invocation_time_to_answer_for_its_batch() -> None:
    """A try is up to 3 x 5 s by the worker's own configuration; "what the last try may take" is said to be 2 s. The
    first try leaves 5 s, in which the batch could be answered; the second is begun, and the function is killed in it.
    """
    world = World(time_left=25 * SECOND, deadline=20 * SECOND, lease=30 * SECOND)
    plain = world.store.apply

    def passes(seconds: int) -> None:
        world.time_left -= seconds * SECOND
        world.clock.forward(seconds * SECOND)

    def apply(job_id: str, write: Write) -> Any:
        if write.move.name == "complete":
            passes(15)
            raise StoreUnavailable("no answer")
        return plain(job_id, write)

    world.store.apply = apply  # type: ignore[method-assign]
    world.handler = lambda payload, run: passes(5)
    world.run_batch(world.submitted(a_job()))
    assert world.time_left > timedelta(), f"the function was killed {-world.time_left} earlier, its answer with it"


def test_a_handler_that_sleeps_for_ever_is_fenced_and_its_neighbours_are_done_and_deleted(
    released: threading.Event,
) -> None:
    world = World(clock=SystemClock(), deadline=SHORT)

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "hangs":
            released.wait(30)

    world.handler = handler
    hangs = world.submitted(a_fresh_job(tenant="hangs"))
    others = [world.submitted(a_fresh_job()) for _ in range(3)]
    kept = world.run_batch(hangs, *others)
    assert kept == [hangs.message_id]
    assert {world.found(m).state for m in others} == {State.COMPLETED}
    assert set(world.mailbox.acknowledged) == {m.message_id for m in others}
    assert world.ends == ["ended"], "the process must end: a frozen thread would wake in the next invocation"
    job = world.found(hangs)
    assert (job.state, job.error_class, job.error_code) == (State.RETRYING, "transient", "deadline-exceeded")
    assert job.next_attempt_at is not None
    assert job.started_at is not None
    assert job.next_attempt_at >= job.started_at + DEFAULT_LEASE, (
        "beside the hung thread, which believes it owns the job"
    )


def test_a_fenced_handler_can_start_no_effect_and_report_no_progress(released: threading.Event) -> None:
    world = World(clock=SystemClock(), deadline=SHORT)
    came_to, ended = [], threading.Event()

    def handler(payload: Order, run: Any) -> None:
        released.wait(30)
        for act in (lambda: run.once("charge", lambda: 1), lambda: run.progress(1, 2, "pages")):
            try:
                act()
            except LeaseLost:
                came_to.append("refused")
        ended.set()

    world.handler = handler
    message = world.submitted(a_fresh_job())
    world.run_batch(message)
    before = world.found(message)
    released.set()
    assert ended.wait(10)
    assert came_to == ["refused", "refused"]
    assert world.found(message) == before


def test_a_hung_last_attempt_is_dead_and_its_message_deleted(released: threading.Event) -> None:
    world = World(clock=SystemClock(), deadline=SHORT, policy=RetryPolicy((timedelta(),)))
    world.handler = lambda payload, run: released.wait(30) and None
    message = world.submitted(a_fresh_job(max_attempts=1))
    assert world.run_batch(message) == []
    assert world.found(message).state is State.DEAD
    assert world.mailbox.acknowledged == [message.message_id]


def test_a_handler_that_ends_in_time_is_never_fenced() -> None:
    world = World(clock=SystemClock(), deadline=timedelta(seconds=5))
    messages = [world.submitted(a_fresh_job()) for _ in range(4)]
    assert world.run_batch(*messages) == []
    assert world.ends == []
    assert world.mailbox.acknowledged == []


def test_behind_a_hung_handler_of_its_key_nothing_starts(released: threading.Event) -> None:
    world = World(clock=SystemClock(), deadline=SHORT, queue="webhooks.partner-a")
    world.handler = lambda payload, run: released.wait(30) and None
    messages = [replace(world.submitted(a_fresh_job(queue="webhooks.partner-a")), group="k") for _ in range(2)]
    assert world.run_batch(*messages) == [m.message_id for m in messages]
    assert world.found(messages[1]).state is State.QUEUED


def test_a_batch_of_ten_whose_sixth_overruns_runs_the_first_five_once_and_returns_the_rest_unstarted(
    released: threading.Event,
) -> None:
    """One key on a FIFO lane: 1-5 are done, 6 is fenced, 7-10 come back without an attempt spent."""
    world = World(clock=SystemClock(), deadline=SHORT, queue="webhooks.partner-a")
    ran: list[str] = []

    def handler(payload: Order, run: Any) -> None:
        ran.append(run.job_id)
        if len(ran) == 6:
            released.wait(30)

    world.handler = handler
    messages = [replace(world.submitted(a_fresh_job(queue="webhooks.partner-a")), group="k") for _ in range(10)]
    assert world.run_batch(*messages) == [m.message_id for m in messages[5:]]
    assert world.mailbox.acknowledged == [m.message_id for m in messages[:5]]
    assert [world.found(m).attempts for m in messages] == [1] * 6 + [0] * 4


def test_a_hung_handler_of_a_renewing_type_is_fenced_when_its_lease_ends(released: threading.Event) -> None:
    """Its deadline may be minutes away, but from the lease's end on another worker may take its job."""
    world = World(clock=SystemClock(), deadline=timedelta(minutes=10), lease=SHORT)
    world.handler = lambda payload, run: released.wait(30) and None
    message = world.submitted(a_fresh_job())
    assert world.run_batch(message) == [message.message_id]
    assert world.ends == ["ended"]
    assert (world.found(message).state, world.found(message).error_code) == (State.RETRYING, "deadline-exceeded")


def test_the_retry_of_a_hung_job_waits_until_its_process_has_ended(released: threading.Event) -> None:
    """The process ends after the neighbours, so not before the last of their deadlines may the job start elsewhere."""
    watch = Watch(TestClock())
    told: list[Any] = []
    message = a_message(a_job())
    for seconds in (0, 60, 30):
        at = NOW + timedelta(seconds=seconds)
        watch.start(Running(message, at, lambda at=at: at, lambda: None, lambda ends_at: told.append(ends_at)))
    watch.fence_overdue()
    assert told == [NOW + timedelta(seconds=60)]
    assert watch.seconds_to_next_deadline() == 30


def test_every_overdue_handler_is_shut_out_before_the_first_of_them_is_recorded() -> None:
    """Recording asks the table; until it answered, the others began effects after their deadline."""
    told: list[str] = []
    clock = TestClock()
    watch, message = Watch(clock), a_message(a_job())
    for name in ("a", "b"):
        watch.start(
            Running(
                message,
                NOW,
                lambda: NOW,
                lambda name=name: told.append(f"{name} shut"),
                lambda ends_at, name=name: told.append(f"{name} recorded"),
            )
        )
    watch.fence_overdue()
    assert told == ["a shut", "b shut", "a recorded", "b recorded"]


def test_a_hung_attempts_retry_starts_after_the_last_neighbours_deadline_when_its_process_ends(
    released: threading.Event,
) -> None:
    world = World(clock=SystemClock(), deadline=SHORT)
    ends_at = SystemClock().now() + timedelta(minutes=5)
    plain = Watch.fence_overdue

    def beside_a_long_neighbour(watch: Watch) -> None:
        if not watch.hung:
            neighbour = Running(a_message(a_job()), ends_at, lambda: ends_at, lambda: None, lambda at: None)
            watch.start(neighbour)
            plain(watch)
            watch.end(neighbour)
        else:
            plain(watch)

    world.handler = lambda payload, run: released.wait(30) and None
    message = world.submitted(a_fresh_job())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watch, "fence_overdue", beside_a_long_neighbour)
        world.run_batch(message)
    job = world.found(message)
    assert job.next_attempt_at is not None
    assert job.next_attempt_at >= ends_at - timedelta(milliseconds=1)


def test_a_fence_does_not_wait_for_a_table_that_does_not_answer(released: threading.Event) -> None:
    """It would keep the watch from the other handlers for as long as the hung one's lease lasts."""
    world = World(clock=SystemClock(), deadline=SHORT)
    tries: list[str] = []
    plain_apply = world.store.apply

    def down(job_id: str, write: Write) -> Any:
        if write.move.name == "retry":
            tries.append(write.move.name)
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    world.store.apply = down  # type: ignore[method-assign]
    world.handler = lambda payload, run: released.wait(30) and None
    assert len(world.run_batch(world.submitted(a_fresh_job()))) == 1
    assert tries == ["retry"]


@pytest.mark.parametrize("broken", ["fence", "meter"])
def test_the_process_ends_although_the_fence_or_the_meter_fails(released: threading.Event, broken: str) -> None:
    world = World(clock=SystemClock(), deadline=SHORT)
    plain_apply = world.store.apply

    def refuse(job_id: str, write: Write) -> Any:
        if write.move.target is State.RETRYING:
            raise PermissionError("AccessDenied")
        return plain_apply(job_id, write)

    def cannot_emit(*_: object) -> None:
        raise OSError("no standard output")

    if broken == "fence":
        world.store.apply = refuse  # type: ignore[method-assign]
    else:
        world.meter.emit = cannot_emit  # type: ignore[method-assign]
    world.handler = lambda payload, run: released.wait(30) and None if run.tenant == "hangs" else None
    hangs, fine = world.submitted(a_fresh_job(tenant="hangs")), world.submitted(a_fresh_job())
    assert world.run_batch(hangs, fine) == [hangs.message_id]
    assert (world.ends, world.mailbox.acknowledged) == (["ended"], [fine.message_id])


def test_in_another_group_too_nothing_starts_beside_a_hung_handler(released: threading.Event) -> None:
    """The second of the other group runs when the first handler is fenced, and ends; the third is left."""
    world = World(clock=SystemClock(), deadline=SHORT, queue="webhooks.partner-a")

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "hangs":
            released.wait(30)
        else:
            time.sleep(SHORT.total_seconds() * 0.65)

    world.handler = handler
    lane = {"queue": "webhooks.partner-a"}
    hangs = replace(world.submitted(a_fresh_job(tenant="hangs", **lane)), group="1")
    others = [replace(world.submitted(a_fresh_job(**lane)), group="2") for _ in range(3)]
    assert world.run_batch(hangs, *others) == [hangs.message_id, others[2].message_id]
    assert [world.found(m).state for m in others] == [State.COMPLETED, State.COMPLETED, State.QUEUED]
    assert world.found(others[2]).attempts == 0


def test_nothing_starts_when_the_invocation_has_no_time_left_and_nothing_is_spent() -> None:
    world = World(handler=refuse_to_run, time_left=timedelta(seconds=20), deadline=timedelta(seconds=20))
    messages = [world.submitted(a_job()) for _ in range(3)]
    assert world.run_batch(*messages) == [m.message_id for m in messages]
    for message in messages:
        assert (world.found(message).state, world.found(message).attempts) == (State.QUEUED, 0)
        assert world.mailbox.hidden[message.message_id] == timedelta(), "visible at once, for another worker"
    assert world.meter.outcomes() == ["released"] * 3


def test_what_is_released_is_not_also_run_in_that_invocation() -> None:
    world = World(handler=refuse_to_run, time_left=timedelta(seconds=1), queue="webhooks.partner-a")
    messages = [replace(world.submitted(a_job(queue="webhooks.partner-a")), group="k") for _ in range(3)]
    assert world.run_batch(*messages) == [m.message_id for m in messages]


def test_a_handler_sees_how_much_time_it_has() -> None:
    left = []

    def handler(payload: Order, run: Any) -> None:
        left.append(run.time_left)
        world.clock.forward(timedelta(seconds=20))
        left.append(run.time_left)

    world = World(handler=handler, deadline=timedelta(seconds=60))
    world.deliver(world.submitted(a_job()))
    assert left == [timedelta(seconds=60), timedelta(seconds=40)]
