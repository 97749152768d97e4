"""A job whose worker vanished is tried once more, alone in its process; then it is dead as stalled."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import job_id_for_key
from shared.domain.outcome import Outcome
from shared.domain.retry import FailureClass
from shared.domain.states import LEASE, Seen, State
from shared.domain.waits import RECEIVE_LIMIT
from shared.domain.writes import Write
from shared.errors import (
    TransientFailure,
)
from shared.operations.run.delivery import TRIES_ELSEWHERE
from shared.operations.run.turns import Turns
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.queues import QUEUES
from tests.api import Client
from tests.builders import (
    MINUTE,
    NOW,
    SECOND,
    MemoryDeadLetters,
    RecordedLog,
    RecordedMeter,
    a_job,
    a_message,
    a_running_job,
    saying,
)
from tests.chaos.cloud import Cloud
from tests.chaos.kinds import Kind, post, request
from tests.world import DEFAULT_LEASE, Order, World, raising, refuse_to_run

POISON = job_id_for_key("acme-eu", "poison")


TICK = timedelta(minutes=1)


def poisoned(queue: str, **more: Any) -> tuple[Cloud, Counter[str]]:
    """Four jobs in one batch, the first of which kills the worker's process whenever it runs."""
    starts: Counter[str] = Counter()

    def handler(cloud: Cloud, run: Any) -> None:
        starts[run.job_id] += 1
        time.sleep(0.1)  # so long that those beside the poison are at work when it strikes
        if run.job_id == POISON:
            cloud.worker_dies()
        time.sleep(0.1)

    def begin(cloud: Cloud) -> None:
        for key in ("poison", "k1", "k2", "k3"):
            post(cloud, request(key, **more))

    cloud = Cloud(Kind(handler=handler, begin=begin, queue=queue))
    begin(cloud)
    cloud.go_on()
    return cloud, starts


FOREVER = 10.0


class Waiter(threading.Thread):
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
    monkeypatch.setattr("shared.operations.run.turns.SECONDS_IN_THE_WAY", 5.0)


def test_a_handler_that_kills_its_process_every_time_is_dead_as_stalled_and_its_batch_completes() -> None:
    """SCENARIOS 3. Its neighbours die with it once, and each then shows alone that it is innocent."""
    cloud, starts = poisoned("exports.month-end")
    poison, *neighbours = cloud.jobs
    assert (poison.job_id, poison.state, poison.error_class) == (POISON, State.DEAD, FailureClass.STALLED)
    assert starts[POISON] == 2, "recovered once, then stopped for a human"
    assert [job.state for job in neighbours] == [State.COMPLETED] * 3
    assert all(job.stalls <= 1 and job.attempts <= 2 for job in neighbours)
    assert cloud.worker_deaths == 2


def test_a_handler_that_kills_its_process_holds_up_its_own_key_only_until_it_is_dead() -> None:
    """SCENARIOS 3, on a lane that keeps order: those behind it in its group are not started beside it."""
    cloud, starts = poisoned("webhooks.partner-a", ordering_key="k")
    poison, *behind = cloud.jobs
    assert (poison.state, poison.error_class, starts[POISON]) == (State.DEAD, FailureClass.STALLED, 2)
    assert [(job.state, job.attempts, job.stalls) for job in behind] == [(State.COMPLETED, 1, 0)] * 3


@pytest.mark.parametrize(("max_attempts", "says"), [(1, [State.DEAD]), (6, [State.QUEUED, State.DEAD])])
def test_a_function_killed_without_a_word_until_its_budget_is_gone_reads_dead_within_a_sweep(
    max_attempts: int, says: list[State]
) -> None:
    """SCENARIOS 12. No message ever comes back: the sweeper alone follows, and the status endpoint says what it did."""
    client = Client()
    job = a_job(max_attempts=max_attempts)
    client.store.submit(job, NOW)
    ports = SweeperPorts(
        store=client.store,
        dead_letters=MemoryDeadLetters(),
        clock=client.clock,
        log=RecordedLog(),
        meter=RecordedMeter(),
        queues=QUEUES,
    )
    shown: list[str] = []
    while (found := client.store.get(job.job_id)) is not None and found.state is State.QUEUED:
        now = client.clock.now()
        lease = {"holder": "h", "lease_expires_at": now + TICK / 2, "started_at": now, "code_version": "abc1234"}
        client.store.apply(job.job_id, Write(LEASE, Seen(now=now, dispatch=found.dispatch), lease))
        for _ in range(2):  # the lease ends within the first tick, PATIENCE within the second
            client.clock.forward(TICK)
            sweep_job(job.job_id, ports, queue_empty=False)
        shown.append(client.get(f"/jobs/{job.job_id}").json["status"])
    assert shown == says, "and never running"
    view = client.get(f"/jobs/{job.job_id}").json
    assert view["error"]["class"] == FailureClass.STALLED
    assert "run" in view["error"]["message"]


def test_a_job_that_stalls_twice_in_a_row_is_dead_as_stalled_and_not_started_again() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job(stalls=1))
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_class == "stalled"


def test_a_clean_end_between_two_crashes_is_not_a_stall_in_a_row() -> None:
    world = World(handler=raising(TransientFailure("x")))
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.RETRYING
    assert (world.found(message).run, world.found(message).stalls) == (2, 0)


def test_a_job_whose_worker_vanished_runs_alone_so_that_its_next_crash_is_its_own() -> None:
    """Its batch came back with it, and any of them may have been the one that killed the worker."""
    beside: list[int] = []
    running = [0]
    lock = threading.Lock()

    def handler(payload: Order, run: Any) -> None:
        with lock:
            running[0] += 1
            beside.append(running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1

    world = World(handler=handler)
    messages = [world.submitted(a_running_job()) for _ in range(4)]
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.run_batch(*messages) == []
    assert beside == [1, 1, 1, 1]
    assert {world.found(m).state for m in messages} == {State.COMPLETED}


def test_a_suspect_waits_for_the_jobs_beside_it_and_a_later_one_waits_for_the_suspect() -> None:
    order: list[str] = []

    def handler(payload: Order, run: Any) -> None:
        order.append(f"{run.tenant} starts")
        time.sleep(0.1 if run.tenant == "fresh" else 0.02)
        order.append(f"{run.tenant} ends")

    world = World(handler=handler)
    fresh = world.submitted(a_job(tenant="fresh"))
    suspect = world.submitted(a_running_job(tenant="suspect"))
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.run_batch(fresh, suspect) == []
    assert order in (
        ["fresh starts", "fresh ends", "suspect starts", "suspect ends"],
        ["suspect starts", "suspect ends", "fresh starts", "fresh ends"],
    )


def test_a_suspect_without_time_left_is_released_and_not_reclaimed() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    left = [timedelta(minutes=14), timedelta(seconds=1)]
    time_left = lambda: left.pop(0) if len(left) > 1 else left[0]  # noqa: E731
    assert world.run_batch(message, time_left=time_left) == [message.message_id]
    assert (world.found(message).run, world.found(message).stalls) == (1, 0)
    assert world.mailbox.hidden[message.message_id] == timedelta()


def test_a_message_of_a_vanished_worker_that_no_one_here_can_take_over_does_not_come_back_at_once() -> None:
    """Its type is not known here: coming back at once, it would use its receives up in seconds."""
    world = World()
    message = world.submitted(a_running_job(type="not-known-here"))
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.WAITING
    assert world.mailbox.hidden[message.message_id] == 30 * SECOND


def test_a_suspect_on_a_busy_lane_of_long_jobs_starts_within_minutes() -> None:
    """Lane of ten minutes, worker of ten and a half, a type with its lane's deadline and the default lease: once its
    neighbours have taken 26 s there is never time for it, however often it waits for them. Every batch is full of
    healthy exports of one minute; its place in the batch is random; a call to the table takes 5 ms.
    """
    dice = random.Random(1)
    world = World(lease=timedelta(minutes=10, seconds=10))
    lane = QUEUES["exports.month-end"]
    started: list[str] = []
    plain = world.store.apply

    def apply(job_id: str, write: Write) -> Any:
        time.sleep(0.005)
        return plain(job_id, write)

    world.store.apply = apply  # type: ignore[method-assign]

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "suspect":
            started.append(run.job_id)
            return
        time.sleep(0.05)
        world.time_left = lane.function_timeout - MINUTE

    world.handler = handler
    suspect = world.submitted(a_running_job(tenant="suspect", lease_expires_at=NOW))
    world.clock.forward(5 * SECOND)
    receives, doorbells, seen = TRIES_ELSEWHERE, 1, 0  # its tries elsewhere are over, for lack of an idle process
    for _ in range(60):
        receives, seen = receives + 1, seen + 1
        world.time_left = lane.function_timeout
        batch = [world.submitted(a_job(tenant="healthy", deadline_at=NOW + timedelta(days=9))) for _ in range(3)]
        batch.insert(dice.randrange(4), replace(suspect, receives=receives))
        world.run_batch(*batch)
        if started:
            break
        world.clock.forward(MINUTE + 30 * SECOND)
        job = world.found(suspect)
        if job.due_key is not None:
            world.promote()
            job = world.found(suspect)
        if suspect.bell is not None and job.dispatch != suspect.bell.dispatch:
            suspect, receives, doorbells = (
                saying(a_message(job), suspect=job.stalls > 0),
                TRIES_ELSEWHERE,
                doorbells + 1,
            )
    assert started, f"no start in {seen} batches, {doorbells} doorbells, {world.clock.now() - NOW}"
    assert world.clock.now() - NOW < 5 * MINUTE, f"start after {seen} batches, {world.clock.now() - NOW}"


def test_a_suspect_waits_for_all_others_and_a_second_one_for_the_first() -> None:
    turns = Turns(lambda: False)
    beside, first, second = Waiter(turns, alone=False), Waiter(turns, alone=True), Waiter(turns, alone=True)
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
    monkeypatch.setattr("shared.operations.run.turns.SECONDS_IN_THE_WAY", 0.3)
    turns = Turns(lambda: False)
    first, second = Waiter(turns, alone=True), Waiter(turns, alone=True)
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
    monkeypatch.setattr("shared.operations.run.turns.SECONDS_IN_THE_WAY", 0.2)
    world = World()
    suspect = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)

    def delivered_beside_a_healthy_job(receives: int) -> Outcome | None:
        batch = world.invocation()
        assert batch.turns.beside()
        threading.Timer(0.6, batch.turns.done).start()
        return world.deliver(replace(suspect, receives=receives), batch)

    assert delivered_beside_a_healthy_job(TRIES_ELSEWHERE) is Outcome.RELEASED
    assert world.mailbox.hidden[suspect.message_id] == timedelta(), "visible at once, for a process with room"
    assert delivered_beside_a_healthy_job(TRIES_ELSEWHERE + 1) is Outcome.STALE
    requeued = world.found(suspect)
    assert (requeued.state, requeued.stalls, requeued.outbox) == (State.QUEUED, 1, "open"), "its doorbell will say it"


def test_a_suspect_on_a_fifo_lane_keeps_its_place_and_waits_for_the_healthy_jobs_beside_it() -> None:
    world = World(queue="webhooks.partner-a")
    suspect = replace(world.submitted(a_running_job(queue="webhooks.partner-a")), group="k")
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    batch = world.invocation()
    assert batch.turns.beside()
    threading.Timer(0.6, batch.turns.done).start()
    assert world.deliver(replace(suspect, receives=TRIES_ELSEWHERE + 1), batch) is Outcome.COMPLETED


def test_a_suspect_that_was_refused_the_process_keeps_its_place_beside_the_others() -> None:
    """Else another suspect would find the process empty while this delivery still goes on."""
    turns = Turns(lambda: False)
    assert turns.beside()
    other = Waiter(turns, alone=False)
    other.start()
    other.settled()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shared.operations.run.turns.SECONDS_IN_THE_WAY", 0.1)
        assert turns.alone(waits=False) is False
    other.may_go_alone.set()
    other.ended.set()
    other.join(FOREVER)
    suspect = Waiter(turns, alone=True)
    suspect.start()
    suspect.may_go_alone.set()
    assert suspect.settled() is None, "the refused one is still here"
    turns.done()
    assert suspect.settled() is True
    suspect.ended.set()


def test_a_suspect_without_room_on_a_fifo_lane_keeps_its_place_and_tries_less_often_the_longer_that_goes_on() -> None:
    world = World(queue="webhooks.partner-a")
    fields = {"queue": "webhooks.partner-a", "stalls": 1, "dispatch": 2}
    suspect = replace(saying(world.submitted(a_job(**fields)), suspect=True), group="k")
    waits = []
    for receives in (RECEIVE_LIMIT, RECEIVE_LIMIT + 10, 500):
        batch = world.invocation()
        assert batch.turns.beside()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("shared.operations.run.delivery.Delivery._room_alone", lambda *_: timedelta())
            assert world.deliver(replace(suspect, receives=receives), batch) is Outcome.RELEASED
        waits.append(world.mailbox.hidden[suspect.message_id])
    assert waits == [timedelta(), 10 * SECOND, 60 * SECOND]
    assert world.found(suspect).state is State.QUEUED


def test_the_others_of_a_batch_go_to_other_processes_when_a_doorbell_names_a_suspect() -> None:
    world = World()
    suspect = saying(world.submitted(a_job(stalls=1, dispatch=2)), suspect=True)
    others = [world.submitted(a_job()) for _ in range(3)]
    kept = world.run_batch(others[0], suspect, *others[1:])
    assert kept == [message.message_id for message in others]
    assert world.found(suspect).state is State.COMPLETED
    assert {world.found(message).attempts for message in others} == {0}
    assert {world.mailbox.hidden[message_id] for message_id in kept} == {timedelta()}, "visible at once"


def test_a_suspect_that_ended_with_a_word_waits_for_its_retry_under_a_doorbell_that_does_not_call_it_one() -> None:
    world = World(handler=raising(TransientFailure("busy")))
    suspect = saying(world.submitted(a_job(stalls=1, dispatch=2)), suspect=True)
    assert world.run_batch(suspect) == []
    waits = world.found(suspect)
    assert (waits.state, waits.stalls, waits.dispatch) == (State.RETRYING, 0, 3)
    assert waits.due_key is not None


def test_the_jobs_of_a_crashed_batch_are_taken_over_in_several_processes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other in one process, the last of ten would wait for nine deadlines."""
    monkeypatch.setattr("shared.operations.run.turns.SECONDS_IN_THE_WAY", 0.2)
    world = World(handler=lambda payload, run: time.sleep(1))
    messages = [world.submitted(a_running_job()) for _ in range(4)]
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    begun = time.monotonic()
    kept = world.run_batch(*messages)
    assert len(kept) == 3
    assert time.monotonic() - begun < 3, "they waited for each other"
    assert {world.mailbox.hidden[message_id] for message_id in kept} == {timedelta()}, "visible at once"
    assert [world.found(m).run for m in messages].count(1) == 3, "not taken over here"


def test_a_waiter_that_gives_up_frees_nobodys_turn_but_its_own() -> None:
    hung: list[bool] = []
    turns = Turns(lambda: bool(hung))
    suspect, waiter = Waiter(turns, alone=True), Waiter(turns, alone=True)
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
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
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
    suspect = saying(world.submitted(a_job(stalls=1, dispatch=2)), suspect=True)

    def delivered_beside_a_long_neighbour(receives: int) -> Outcome | None:
        batch = world.invocation()
        world.time_left = timedelta(minutes=14)
        assert batch.turns.beside()

        def neighbour_ends() -> None:
            world.time_left = DEFAULT_LEASE
            batch.turns.done()

        threading.Timer(0.2, neighbour_ends).start()
        return world.deliver(replace(suspect, receives=receives), batch)

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
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    left = [timedelta(minutes=14), timedelta(minutes=14), timedelta(seconds=36)]
    time_left = lambda: left.pop(0) if len(left) > 1 else left[0]  # noqa: E731
    assert world.run_batch(message, time_left=time_left) == []
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
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    kept = world.run_batch(*messages)
    assert len(kept) == 2
    assert lefts == [timedelta(minutes=10)]
