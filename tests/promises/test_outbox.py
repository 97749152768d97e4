"""Every record with an open outbox is rung, and no other."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.doorbell import fifo_group
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.states import State
from shared.domain.writes import Write
from shared.errors import RingRefused, StoreUnavailable
from shared.operations.relay import MARK_THREADS, OutboxRecord, RelayPorts, relay
from shared.ports import Ring, Unsent
from shared.queues import QUEUES, Queue
from tests.builders import (
    NOW,
    MemoryDoorbell,
    RecordedLog,
    TestClock,
    a_job,
    a_message,
    a_minute_left,
    a_running_job,
)
from tests.chaos.cloud import Cloud
from tests.chaos.kinds import Kind, post, request
from tests.chaos.process import Strike
from tests.world import World


@dataclass
class Relayed:
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    doorbell: MemoryDoorbell = field(default_factory=MemoryDoorbell)
    log: RecordedLog = field(default_factory=RecordedLog)
    time_left: timedelta = timedelta(minutes=1)

    def submit(self, *jobs: Job) -> list[OutboxRecord]:
        for job in jobs:
            self.store.submit(job, NOW)
        return [OutboxRecord({"eventID": job.job_id}, job) for job in jobs]

    def relay(self, records: list[OutboxRecord]) -> None:
        relay(
            records,
            RelayPorts(
                store=self.store,
                doorbell=self.doorbell,
                clock=TestClock(),
                log=self.log,
                queues=QUEUES,
                time_left=lambda: self.time_left,
            ),
        )

    def rung(self) -> list[str]:
        return [ring.bell.job_id for _, ring in self.doorbell.sent]

    def flag(self, job: Job) -> str | None:
        found = self.store.get(job.job_id)
        assert found is not None
        return found.outbox


def throttled(ring: Ring) -> Unsent:
    return Unsent(ring, "ThrottlingException", hopeless=False)


WAITS = 10
"""Seconds a test waits for a thread that must come."""


class Relaying:
    """A relay over these jobs' records."""

    def __init__(self, *jobs: Job) -> None:
        self.store, self.doorbell, self.log, self.jobs = MemoryJobStore(), MemoryDoorbell(), RecordedLog(), jobs
        for job in jobs:
            self.store.submit(job, NOW)

    def relay(self) -> None:
        ports = RelayPorts(
            store=self.store,
            doorbell=self.doorbell,
            clock=TestClock(),
            log=self.log,
            queues=QUEUES,
            time_left=a_minute_left,
        )
        relay([OutboxRecord({}, job) for job in self.jobs], ports)

    def open(self) -> list[int]:
        """Places of the jobs whose flag is still open."""
        return [n for n, job in enumerate(self.jobs) if (found := self.store.get(job.job_id)) and found.outbox]


def later(cloud: Cloud) -> None:
    post(cloud, request(delay=timedelta(hours=1)))


def killed_at_every_call(begin: Any) -> list[tuple[str, int, list[State]]]:
    """(where, how often the handler ran, how its jobs ended) of the same history with one kill after each call of the
    promoter and the relay.
    """
    came_to = []
    undisturbed = Cloud(Kind(handler=lambda cloud, run: None, begin=begin))
    begin(undisturbed)
    undisturbed.go_on()
    for number, call in enumerate(undisturbed.strike.calls, 1):
        if "promote.py" in call.site or "relay.py" in call.site:
            ran: list[str] = []
            kind = Kind(handler=lambda cloud, run, ran=ran: ran.append(run.job_id), begin=begin)
            cloud = Cloud(kind, Strike(at_call=number, before=False))
            begin(cloud)
            cloud.go_on()
            came_to.append((call.name, len(ran), [job.state for job in cloud.jobs]))
    return came_to


def test_each_queued_job_rings_once_and_is_marked() -> None:
    world = Relayed()
    jobs = [a_job() for _ in range(23)]
    world.relay(world.submit(*jobs))
    assert world.rung() == [job.job_id for job in jobs]
    assert [count for _, count in world.doorbell.calls] == [10, 10, 3]
    assert {world.flag(job) for job in jobs} == {None}


def test_a_tenants_jobs_share_a_message_group_on_a_standard_lane() -> None:
    world = Relayed()
    world.relay(world.submit(a_job(tenant="acme-eu"), a_job(tenant=None)))
    assert [ring.group for _, ring in world.doorbell.sent] == ["acme-eu", None]


def test_on_a_fifo_lane_the_group_is_the_tenants_key_and_no_batch_holds_a_key_twice() -> None:
    world = Relayed()
    fifo = {"queue": "webhooks.partner-a", "type": "deliver-webhook"}
    a1, a2, b1 = a_job(ordering_key="a", **fifo), a_job(ordering_key="a", **fifo), a_job(ordering_key="b", **fifo)
    alone = a_job(**fifo)
    world.relay(world.submit(a1, a2, b1, alone))
    a, b = fifo_group(a1), fifo_group(b1)
    assert a != b
    assert [ring.group for _, ring in world.doorbell.sent] == [a, a, b, alone.job_id]
    assert [count for _, count in world.doorbell.calls] == [1, 3]
    assert all(ring.delay == timedelta() for _, ring in world.doorbell.sent)


def test_a_refused_entry_of_a_key_holds_back_the_later_ones_of_that_key_only() -> None:
    world = Relayed()
    fifo = {"queue": "webhooks.partner-a"}
    a1, a2, b1 = a_job(ordering_key="a", **fifo), a_job(ordering_key="a", **fifo), a_job(ordering_key="b", **fifo)
    world.doorbell.refuse = lambda ring: throttled(ring) if ring.bell.job_id == a1.job_id else None
    with pytest.raises(RingRefused, match="2 of 3"):
        world.relay(world.submit(a1, a2, b1))
    assert world.rung() == [b1.job_id]
    assert [world.flag(job) for job in (a1, a2, b1)] == ["open", "open", None]


def test_entries_that_a_batch_refused_are_sent_singly() -> None:
    world, tried = Relayed(), []
    jobs = [a_job() for _ in range(4)]

    def refuse_first_time(ring: Ring) -> Unsent | None:
        tried.append(ring.bell.job_id)
        return throttled(ring) if ring.bell.job_id == jobs[2].job_id and tried.count(ring.bell.job_id) == 1 else None

    world.doorbell.refuse = refuse_first_time
    world.relay(world.submit(*jobs))
    assert set(world.rung()) == {job.job_id for job in jobs}
    assert [count for _, count in world.doorbell.calls] == [4, 1]


def test_what_stays_unsent_is_raised_after_the_others_were_sent_and_marked() -> None:
    world = Relayed()
    lost, fine = a_job(), a_job()
    world.doorbell.refuse = lambda ring: throttled(ring) if ring.bell.job_id == lost.job_id else None
    with pytest.raises(RingRefused, match="1 of 2 doorbells unsent"):
        world.relay(world.submit(lost, fine))
    assert (world.flag(lost), world.flag(fine)) == ("open", None)


def test_one_unreadable_record_among_99_good_is_parked_and_the_shard_goes_on() -> None:
    world = Relayed()
    records = world.submit(*(a_job() for _ in range(99)))
    poison = OutboxRecord({"eventID": "poison"}, None, "attribute 'run' is no int")
    world.relay([*records[:50], poison, *records[50:]])
    assert len(world.rung()) == 99
    assert world.doorbell.parked == [(poison.raw, poison.why)]


def test_a_doorbell_that_sqs_will_never_take_is_parked_instead_of_blocking_its_shard() -> None:
    world = Relayed()
    bad, fine = a_job(), a_job()
    world.doorbell.refuse = lambda r: Unsent(r, "InvalidMessageContents", True) if r.bell.job_id == bad.job_id else None
    world.relay(world.submit(bad, fine))
    assert world.rung() == [fine.job_id]
    assert [raw["eventID"] for raw, _ in world.doorbell.parked] == [bad.job_id]


def test_a_job_of_a_lane_this_version_does_not_declare_is_parked() -> None:
    world = Relayed()
    world.relay(world.submit(a_job(queue="gone.lane")))
    assert "not declared" in world.doorbell.parked[0][1]


def test_a_record_that_cannot_even_be_parked_is_delivered_again() -> None:
    world = Relayed()

    def unreachable(*_: object) -> None:
        raise RingRefused("SendMessage: timeout")

    world.doorbell.park = unreachable  # type: ignore[method-assign]
    with pytest.raises(RingRefused, match="not even parked"):
        world.relay([OutboxRecord({}, None, "no image")])


def test_a_relay_that_died_after_sending_rings_twice_under_the_same_dispatch() -> None:
    world, job = Relayed(), a_job()
    records = world.submit(job)
    world.relay(records)
    world.relay(records)
    assert [ring.bell.dispatch for _, ring in world.doorbell.sent] == [1, 1]
    assert world.flag(job) is None


def test_a_job_that_moved_on_before_the_mark_keeps_its_state() -> None:
    world, job = Relayed(), a_job()
    world.submit(job)
    leased = replace(job, state=State.RUNNING, run=1, attempts=1)
    world.store._jobs[job.job_id] = leased
    world.relay([OutboxRecord({}, job)])
    found = world.store.get(job.job_id)
    assert found is not None
    assert (found.state, found.outbox, found.published_at) == (State.RUNNING, None, NOW)


def test_a_late_mark_of_an_older_dispatch_does_not_close_the_newer_flag() -> None:
    world, job = Relayed(), a_job()
    world.store.submit(replace(job, dispatch=2), NOW)
    world.relay([OutboxRecord({}, job)])
    assert world.flag(job) == "open"
    assert "mark-late" in world.log.names()


def test_a_mark_that_cannot_be_written_does_not_ring_the_whole_batch_again() -> None:
    world, job = Relayed(), a_job()
    records = world.submit(job)

    def throttle(*_: object, **__: object) -> None:
        raise StoreUnavailable("throttled")

    world.store.apply = throttle  # type: ignore[assignment,method-assign]
    world.relay(records)
    assert world.rung() == [job.job_id]
    assert "mark-failed" in world.log.names()


def test_a_job_due_soon_rings_with_the_rest_as_delay() -> None:
    world = Relayed()
    soon, past = a_job(available_at=NOW + timedelta(seconds=90)), a_job(available_at=NOW - timedelta(seconds=9))
    world.relay(world.submit(soon, past))
    assert [ring.delay for _, ring in world.doorbell.sent] == [timedelta(seconds=90), timedelta()]


def test_a_dead_jobs_marked_copy_carries_its_story_in_ten_attributes_at_most() -> None:
    world = Relayed()
    dead = a_job(
        state=State.DEAD,
        attempts=6,
        error_class="transient",
        error_code="s3-throttled",
        first_error_at=NOW,
        last_error_at=NOW,
        holder="holder-1",
        trace_id="Root=1",
    )
    world.relay(world.submit(dead))
    ((_, ring),) = world.doorbell.sent
    assert ring.bell.dead_letter
    assert ring.attributes["error_code"] == "s3-throttled"
    assert ring.attributes["worker"] == "holder-1"
    assert len(ring.attributes) == 10


def test_live_and_dead_doorbells_go_to_their_own_queues() -> None:
    world = Relayed()
    world.relay(world.submit(a_job(), a_job(state=State.DEAD), a_job()))
    assert sorted(count for _, count in world.doorbell.calls) == [1, 2]


def test_a_record_that_needs_no_doorbell_rings_none() -> None:
    world = Relayed()
    world.relay(world.submit(a_running_job(), a_job(outbox=None), a_job(state=State.COMPLETED)))
    assert world.doorbell.calls == []


def test_no_attribute_of_a_dead_letter_is_empty_or_unprintable_which_sqs_refuses() -> None:
    world = Relayed()
    dead = a_job(state=State.DEAD, error_code="", error_class="a\x00b", trace_id=" \n", error_message="x\ufffe\u2028y")
    world.relay(world.submit(dead))
    ((_, ring),) = world.doorbell.sent
    assert ring.attributes["error_class"] == "a b"
    assert {"error_code", "trace_id"} & set(ring.attributes) == set()
    # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_MessageAttributeValue.html
    accepted = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
    assert all(accepted.fullmatch(value) for value in ring.attributes.values())


def test_a_dead_jobs_copy_is_never_delayed_and_a_repair_is_told_from_the_first_ring() -> None:
    world = Relayed()
    world.relay(world.submit(a_job(state=State.DEAD, available_at=NOW + timedelta(minutes=5), rung_at=NOW)))
    ((_, ring),) = world.doorbell.sent
    assert (ring.delay, ring.rung_at) == (timedelta(), NOW)


def test_copies_in_a_fifo_dlq_stand_in_groups_of_their_own() -> None:
    """Ten of one key, looked at and kept by a sweep, would lock the group and hide what lies behind them."""
    world = Relayed()
    fifo = {"queue": "webhooks.partner-a", "ordering_key": "acme"}
    dead, alive = a_job(state=State.DEAD, **fifo), a_job(**fifo)
    world.relay(world.submit(dead, alive))
    groups = {ring.bell.dead_letter: ring.group for _, ring in world.doorbell.sent}
    assert groups == {True: dead.job_id, False: fifo_group(alive)}


def test_one_tenants_ordering_key_holds_up_no_other_tenants() -> None:
    """Neither in the queue, nor in the relay while the first tenant's doorbell is refused."""
    world = Relayed()
    fifo = {"queue": "webhooks.partner-a", "ordering_key": "customer-1"}
    jobs = [a_job(tenant=tenant, **fifo) for tenant in ("acme", "bolt", None)]
    world.doorbell.refuse = lambda ring: throttled(ring) if ring.bell.job_id == jobs[0].job_id else None
    with pytest.raises(RingRefused, match="1 of 3"):
        world.relay(world.submit(*jobs))
    assert world.rung() == [jobs[1].job_id, jobs[2].job_id]
    assert len({ring.group for _, ring in world.doorbell.sent}) == 2


def test_a_slow_queue_holds_up_no_other_in_the_same_batch() -> None:
    world = Relayed()
    slow, fast, dead = a_job(queue="emails.bulk"), a_job(), a_job(state=State.DEAD, queue="emails.bulk")
    others_done = threading.Event()

    def answers_last(ring: Ring) -> None:
        if ring.bell.job_id == slow.job_id:
            assert others_done.wait(WAITS), "the others wait for the slow queue"

    def mark(job_id: str, write: Write) -> Job:
        after = plain_apply(job_id, write)
        if (world.flag(fast), world.flag(dead)) == (None, None):
            others_done.set()
        return after

    plain_apply = world.store.apply
    world.store.apply = mark  # type: ignore[method-assign]
    world.doorbell.refuse = answers_last
    world.relay(world.submit(slow, fast, dead))
    assert {world.flag(job) for job in (slow, fast, dead)} == {None}


def test_a_queue_that_does_not_answer_costs_its_own_doorbells_and_the_relay_ends_before_lambda_ends_it() -> None:
    """Each call takes twelve seconds, and each of ten doorbells would be tried three times."""
    world, calls = Relayed(), []
    silent, fast = [a_job(queue="emails.bulk") for _ in range(35)], [a_job() for _ in range(25)]

    def no_answer(ring: Ring) -> Unsent | None:
        if ring.bell.job_id not in {job.job_id for job in silent}:
            return None
        calls.append(ring)
        return throttled(ring)

    plain_ring = world.doorbell.ring

    def ring(queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        answer = plain_ring(queue, rings)
        if queue.name == "emails.bulk":
            world.time_left -= timedelta(seconds=12)
        return answer

    world.doorbell.refuse, world.doorbell.ring = no_answer, ring  # type: ignore[method-assign]
    everything = world.submit(*fast, *silent)
    with pytest.raises(RingRefused, match="35 of 60"):
        world.relay(everything)
    assert world.time_left > timedelta()
    assert {world.flag(job) for job in fast} == {None}


def test_what_a_fifo_queue_has_no_time_for_is_left_in_order() -> None:
    world = Relayed()
    fifo = {"queue": "webhooks.partner-a", "ordering_key": "customer-1"}
    jobs = [a_job(**fifo) for _ in range(5)]
    plain_ring = world.doorbell.ring

    def ring(queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        world.time_left -= timedelta(seconds=12)
        return plain_ring(queue, rings)

    world.doorbell.ring = ring  # type: ignore[method-assign]
    with pytest.raises(RingRefused, match="no time left"):
        world.relay(world.submit(*jobs))
    rung = world.rung()
    assert 0 < len(rung) < 5
    assert rung == [job.job_id for job in jobs[: len(rung)]]


def test_a_relay_without_time_to_mark_leaves_the_flag_to_the_sweeper() -> None:
    world, job = Relayed(), a_job()
    plain_ring = world.doorbell.ring

    def ring(queue: Queue, rings: Sequence[Ring]) -> Sequence[Unsent]:
        world.time_left = timedelta(seconds=10)
        return plain_ring(queue, rings)

    world.doorbell.ring = ring  # type: ignore[method-assign]
    world.relay(world.submit(job))
    assert (world.rung(), world.flag(job)) == ([job.job_id], "open")
    assert "mark-failed" in world.log.names()


def test_the_doorbell_of_a_job_whose_worker_vanished_says_so() -> None:
    world = Relayed()
    world.relay(world.submit(a_job(stalls=1, dispatch=2), a_job(), a_job(stalls=1, state=State.DEAD)))
    assert sorted((ring.bell.dead_letter, ring.bell.suspect) for _, ring in world.doorbell.sent) == [
        (False, False),
        (False, True),
        (True, False),
    ]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_two_doorbells_of_one_job_in_one_batch_are_both_rung(order: tuple[int, int]) -> None:
    """Counted by job alone, one was never sent and its flag was closed all the same."""
    world = Relayed()
    (record,) = world.submit(a_job(dispatch=2))
    assert record.job is not None
    world.relay([OutboxRecord({}, replace(record.job, dispatch=dispatch)) for dispatch in order])
    assert [ring.bell.dispatch for _, ring in world.doorbell.sent] == list(order)


def test_marks_are_written_side_by_side_so_that_one_slow_table_call_does_not_add_up_over_a_batch() -> None:
    """As many at once as the relay's client has connections for."""
    relaying = Relaying(*(a_job() for _ in range(2 * MARK_THREADS)))
    together = threading.Barrier(MARK_THREADS, timeout=10)
    plain_apply = relaying.store.apply

    def slow(job_id: str, write: Write) -> Job:
        together.wait()
        return plain_apply(job_id, write)

    relaying.store.apply = slow  # type: ignore[method-assign]
    relaying.relay()
    assert relaying.open() == []


@pytest.mark.parametrize("place", [0, 7, 22])
def test_a_mark_that_cannot_be_written_keeps_no_other_flag_open_and_rings_nobody_twice(place: int) -> None:
    """SCENARIOS 22. Its own flag is left to the sweeper."""
    relaying = Relaying(*(a_job() for _ in range(23)))
    plain_apply = relaying.store.apply

    def throttled(job_id: str, write: Write) -> Job:
        if job_id == relaying.jobs[place].job_id:
            raise StoreUnavailable("throttled")
        return plain_apply(job_id, write)

    relaying.store.apply = throttled  # type: ignore[method-assign]
    relaying.relay()
    assert relaying.open() == [place]
    assert len(relaying.doorbell.sent) == 23


def test_a_batch_of_which_sqs_takes_a_part_is_delivered_again_and_every_job_runs_once() -> None:
    """SCENARIOS 22. SendMessageBatch answers 200 with failures in it; the record comes again with all its batch."""
    jobs = [a_job() for _ in range(10)]
    relaying, ran = Relaying(*jobs), []
    down = {jobs[3].job_id, jobs[8].job_id}

    def refuse(ring: Ring) -> Unsent | None:
        return Unsent(ring, "InternalError", hopeless=False) if ring.bell.job_id in down else None

    relaying.doorbell.refuse = refuse
    with pytest.raises(RingRefused, match="2 of 10"):
        relaying.relay()
    assert relaying.open() == [3, 8]
    assert [count for _, count in relaying.doorbell.calls] == [10, 1, 1, 1, 1], "failures are tried again singly"
    down.clear()
    relaying.relay()
    assert relaying.open() == []

    world = World(handler=lambda payload, run: ran.append(run.job_id), store=relaying.store)
    by_id = {job.job_id: job for job in jobs}
    messages = [a_message(by_id[ring.bell.job_id]) for _, ring in relaying.doorbell.sent]
    assert len(messages) == 18
    came_to = [world.deliver(message) for message in messages]
    assert (came_to.count(Outcome.COMPLETED), came_to.count(Outcome.STALE)) == (10, 8)
    assert sorted(ran) == sorted(by_id)
    assert {found.state for job in jobs if (found := relaying.store.get(job.job_id))} == {State.COMPLETED}


@pytest.mark.parametrize("begin", [post, later], ids=["queued at once", "promoted"])
def test_a_promoter_or_relay_that_dies_between_sending_and_marking_makes_one_execution(begin: Any) -> None:
    """SCENARIOS 19 and 22. The doorbell rings twice; the second finds the job's own record."""
    came_to = killed_at_every_call(begin)
    assert {"doorbell.ring", "store.make"} <= {name for name, _, _ in came_to}
    assert {(ran, *states) for _, ran, states in came_to} == {(1, State.COMPLETED)}


@pytest.mark.parametrize("place", [0, 7, 22])
def test_a_mark_that_surprises_keeps_no_other_flag_open(place: int) -> None:
    relaying = Relaying(*(a_job() for _ in range(23)))
    plain_apply = relaying.store.apply

    def failing(job_id: str, write: Write) -> Job:
        if job_id == relaying.jobs[place].job_id:
            raise ValueError("attribute 'state' is no State: 'archived'")
        return plain_apply(job_id, write)

    relaying.store.apply = failing  # type: ignore[method-assign]
    relaying.relay()
    assert relaying.open() == [place]
