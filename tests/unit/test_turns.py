"""Turns: side by side, or a suspect alone."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.outcome import Outcome
from shared.domain.states import RECLAIM, Seen, State
from shared.domain.waits import RECEIVE_LIMIT
from shared.errors import StoreUnavailable, TransientFailure
from shared.operations.batch import TRIES_ELSEWHERE
from shared.operations.run import Batch, deliver, run_batch
from shared.operations.turns import Turns
from shared.operations.watch import Watch
from tests.builders import a_job, a_message, a_running_job
from tests.world import LEASE, SECOND, Order, World, raising

FOREVER = 10.0


class Job(threading.Thread):
    """A job that takes its turn in a thread of its own and keeps it until told."""

    def __init__(self, turns: Turns, alone: bool) -> None:
        super().__init__(daemon=True)
        self.turns, self.wants_alone = turns, alone
        self.got: bool | None = None
        self.ended, self.may_go_alone = threading.Event(), threading.Event()

    def run(self) -> None:
        assert self.turns.beside()
        self.may_go_alone.wait(FOREVER)
        self.got = self.turns.alone(waits=True) if self.wants_alone else True
        if self.got:
            self.ended.wait(FOREVER)
        self.turns.done()

    def settled(self) -> bool | None:
        time.sleep(0.15)
        return self.got


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for what these tests wait for, where they do not say otherwise."""
    monkeypatch.setattr("shared.operations.turns.PATIENCE", 5.0)


def test_a_suspect_waits_for_all_others_and_a_second_one_for_the_first() -> None:
    turns = Turns(lambda: False)
    beside, first, second = Job(turns, alone=False), Job(turns, alone=True), Job(turns, alone=True)
    for job in (beside, first, second):
        job.start()
    for job in (beside, first, second):
        job.may_go_alone.set()
        job.settled()
    assert (first.got, second.got) == (None, None)
    beside.ended.set()
    assert sorted([first.settled(), second.settled()], key=str) == [None, True]
    (first if first.got else second).ended.set()
    time.sleep(0.3)
    assert (first.got, second.got) == (True, True)
    first.ended.set()
    second.ended.set()


def test_nobody_waits_long_behind_a_suspect_for_another_process_may_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.turns.PATIENCE", 0.3)
    turns = Turns(lambda: False)
    first, second = Job(turns, alone=True), Job(turns, alone=True)
    for job in (first, second):
        job.start()
    time.sleep(0.1)
    for job in (first, second):
        job.may_go_alone.set()
        job.settled()
    time.sleep(0.4)
    assert sorted([first.got, second.got]) == [False, True]
    assert turns.beside() is False, "a newcomer behind it"
    for job in (first, second):
        job.ended.set()


def test_a_suspect_beside_long_healthy_jobs_looks_for_room_elsewhere_before_it_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.operations.turns.PATIENCE", 0.2)
    world = World()
    suspect = world.submitted(a_running_job())
    world.clock.forward(LEASE + 4 * SECOND)

    def delivered_beside_a_healthy_job(receives: int) -> Outcome | None:
        batch = Batch(Watch(world.clock))
        assert batch.turns.beside()
        threading.Timer(0.6, batch.turns.done).start()
        return deliver(replace(suspect, receives=receives), batch, world.ports)

    assert delivered_beside_a_healthy_job(TRIES_ELSEWHERE) is Outcome.RELEASED
    assert world.mailbox.hidden[suspect.message_id] == timedelta(), "visible at once, for a process with room"
    assert delivered_beside_a_healthy_job(TRIES_ELSEWHERE + 1) is Outcome.STALE
    requeued = world.found(suspect)
    assert (requeued.state, requeued.stalls, requeued.outbox) == (State.QUEUED, 1, "open"), "its doorbell will say it"


def test_a_suspect_on_a_fifo_lane_keeps_its_place_and_waits_for_the_healthy_jobs_beside_it() -> None:
    world = World(queue="webhooks.partner-a")
    suspect = replace(world.submitted(a_running_job(queue="webhooks.partner-a")), group="k")
    world.clock.forward(LEASE + 4 * SECOND)
    batch = Batch(Watch(world.clock))
    assert batch.turns.beside()
    threading.Timer(0.6, batch.turns.done).start()
    assert deliver(replace(suspect, receives=TRIES_ELSEWHERE + 1), batch, world.ports) is Outcome.COMPLETED


def test_a_suspect_that_was_refused_the_process_keeps_its_place_beside_the_others() -> None:
    """Else another suspect would find the process empty while this delivery still goes on."""
    turns = Turns(lambda: False)
    assert turns.beside()
    other = Job(turns, alone=False)
    other.start()
    other.settled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shared.operations.turns.PATIENCE", 0.1)
        assert turns.alone(waits=False) is False
    other.may_go_alone.set()
    other.ended.set()
    other.join(FOREVER)
    suspect = Job(turns, alone=True)
    suspect.start()
    suspect.may_go_alone.set()
    assert suspect.settled() is None, "the refused one is still here"
    turns.done()
    assert suspect.settled() is True
    suspect.ended.set()


def test_a_suspect_without_room_on_a_fifo_lane_keeps_its_place_and_tries_less_often_the_longer_that_goes_on() -> None:
    world = World(queue="webhooks.partner-a")
    fields = {"queue": "webhooks.partner-a", "stalls": 1, "dispatch": 2}
    suspect = replace(world.submitted(a_job(**fields)), group="k", suspect=True)
    waits = []
    for receives in (RECEIVE_LIMIT, RECEIVE_LIMIT + 10, 500):
        batch = Batch(Watch(world.clock))
        assert batch.turns.beside()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shared.operations.batch.Place.alone", lambda place: timedelta())
            assert deliver(replace(suspect, receives=receives), batch, world.ports) is Outcome.RELEASED
        waits.append(world.mailbox.hidden[suspect.message_id])
    assert waits == [timedelta(), 10 * SECOND, 60 * SECOND]
    assert world.found(suspect).state is State.QUEUED


def test_the_others_of_a_batch_go_to_other_processes_when_a_doorbell_names_a_suspect() -> None:
    world = World()
    suspect = replace(world.submitted(a_job(stalls=1, dispatch=2)), suspect=True)
    others = [world.submitted(a_job()) for _ in range(3)]
    kept = world.run_batch(others[0], suspect, *others[1:])
    assert kept == [message.message_id for message in others]
    assert world.found(suspect).state is State.COMPLETED
    assert {world.found(message).attempts for message in others} == {0}
    assert {world.mailbox.hidden[message_id] for message_id in kept} == {timedelta()}, "visible at once"


def test_a_suspect_that_ended_with_a_word_waits_for_its_retry_under_a_doorbell_that_does_not_call_it_one() -> None:
    world = World(handler=raising(TransientFailure("busy")))
    suspect = replace(world.submitted(a_job(stalls=1, dispatch=2)), suspect=True)
    assert world.run_batch(suspect) == []
    waits = world.found(suspect)
    assert (waits.state, waits.stalls, waits.dispatch) == (State.RETRYING, 0, 3)
    assert waits.due_key is not None


def test_the_jobs_of_a_crashed_batch_are_taken_over_in_several_processes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other in one process, the last of ten would wait for nine deadlines."""
    monkeypatch.setattr("shared.operations.turns.PATIENCE", 0.2)
    world = World(handler=lambda payload, run: time.sleep(1))
    messages = [world.submitted(a_running_job()) for _ in range(4)]
    world.clock.forward(LEASE + 4 * SECOND)
    begun = time.monotonic()
    kept = world.run_batch(*messages)
    assert len(kept) == 3
    assert time.monotonic() - begun < 3, "they waited for each other"
    assert {world.mailbox.hidden[message_id] for message_id in kept} == {timedelta()}, "visible at once"
    assert [world.found(m).run for m in messages].count(1) == 3, "not taken over here"


def test_a_waiter_that_gives_up_frees_nobodys_turn_but_its_own() -> None:
    hung: list[bool] = []
    turns = Turns(lambda: bool(hung))
    suspect, waiter = Job(turns, alone=True), Job(turns, alone=True)
    suspect.start()
    waiter.start()
    suspect.may_go_alone.set()
    assert suspect.settled() is None, "the other still has its place"
    waiter.may_go_alone.set()
    assert sorted([suspect.settled(), waiter.settled()], key=str) == [None, True]
    hung.append(True)
    time.sleep(0.3)
    assert turns.beside() is False, "a place beside a hung suspect"
    (suspect if suspect.got else waiter).ended.set()


def test_a_suspect_that_finds_no_room_is_hidden_a_while_and_in_the_end_gets_a_fresh_doorbell() -> None:
    """Else a lane whose neighbours leave no time would use its receives up, and SQS would move it away unrun."""
    world = World(time_left=timedelta(minutes=10, seconds=30))

    def long_neighbour(payload: Order, run: Any) -> None:
        if run.tenant != "suspect":
            time.sleep(0.1)
            world.time_left = timedelta(seconds=30)

    world.handler = long_neighbour
    suspect = world.submitted(a_running_job(tenant="suspect"))
    world.clock.forward(LEASE + 4 * SECOND)
    receives = 0
    while (job := world.found(suspect)).state is State.RUNNING and job.run == 1:
        receives += 1
        world.time_left = timedelta(minutes=10, seconds=30)
        kept = world.run_batch(world.submitted(a_job()), replace(suspect, receives=receives))
        if suspect.message_id in kept:
            assert world.mailbox.hidden[suspect.message_id] == 30 * SECOND
    assert receives <= RECEIVE_LIMIT + 1
    if job.state is State.QUEUED:
        assert (job.dispatch, job.outbox, job.stalls) == (2, "open", 1)
        world.time_left = timedelta(minutes=10, seconds=30)
        assert world.deliver(a_message(job)) is Outcome.COMPLETED


def test_a_requeued_suspect_without_room_waits_and_keeps_being_known_as_one() -> None:
    world = World()
    suspect = replace(world.submitted(a_job(stalls=1, dispatch=2)), suspect=True)

    def delivered_beside_a_long_neighbour(receives: int) -> Outcome | None:
        batch = Batch(Watch(world.clock))
        world.time_left = timedelta(minutes=14)
        assert batch.turns.beside()

        def neighbour_ends() -> None:
            world.time_left = LEASE
            batch.turns.done()

        threading.Timer(0.2, neighbour_ends).start()
        return deliver(replace(suspect, receives=receives), batch, world.ports)

    assert delivered_beside_a_long_neighbour(RECEIVE_LIMIT) is Outcome.RELEASED
    assert world.mailbox.hidden[suspect.message_id] == 30 * SECOND
    assert world.found(suspect).state is State.QUEUED
    assert delivered_beside_a_long_neighbour(RECEIVE_LIMIT + 1) is Outcome.DEFERRED_IN_DUE
    waits = world.found(suspect)
    assert (waits.state, waits.stalls, waits.dispatch) == (State.RETRYING, 1, 3)
    assert waits.due_key is not None, "or SQS would move its message away, unrun"


def test_a_suspect_needs_no_more_time_than_its_lease() -> None:
    lefts: list[timedelta] = []
    world = World(handler=lambda payload, run: lefts.append(run.time_left), deadline=timedelta(minutes=10))
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 4 * SECOND)
    left = [timedelta(minutes=14), timedelta(minutes=14), timedelta(seconds=36)]
    ports = replace(world.ports, time_left=lambda: left.pop(0) if len(left) > 1 else left[0])
    assert run_batch([message], ports) == []
    assert world.found(message).state is State.COMPLETED
    assert lefts == [timedelta(seconds=31)], "what the invocation leaves, less than its deadline"


def test_time_is_asked_again_after_the_wait_for_a_turn() -> None:
    lefts: list[timedelta] = []
    world = World(deadline=timedelta(minutes=10), time_left=timedelta(minutes=11))

    def handler(payload: Order, run: Any) -> None:
        lefts.append(run.time_left)
        time.sleep(0.1)
        world.time_left = timedelta(seconds=4)

    world.handler = handler
    messages = [world.submitted(a_running_job()) for _ in range(3)]
    world.clock.forward(LEASE + 4 * SECOND)
    kept = world.run_batch(*messages)
    assert len(kept) == 2
    assert lefts == [timedelta(minutes=10)]


def test_a_takeover_whose_answer_never_came_is_found_by_its_token_and_is_no_second_stall() -> None:
    world, lost = World(), []
    message = world.submitted(a_running_job())
    world.clock.forward(LEASE + 4 * SECOND)
    plain_apply = world.store.apply

    def answer_lost(job_id: str, move: Any, seen: Seen, **changes: Any) -> Any:
        after = plain_apply(job_id, move, seen, **changes)
        if move is RECLAIM and not lost:
            lost.append(True)
            raise StoreUnavailable("timed out after it landed")
        return after

    world.store.apply = answer_lost  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).run, world.found(message).stalls) == (2, 1)
