"""One key's jobs start in its order, one at a time, and hold up no other key's."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.states import State
from shared.errors import (
    TransientFailure,
)
from shared.operations.redrive import OperatorPorts, cancel, replay
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.queues import QUEUES
from tests.builders import (
    MINUTE,
    NOW,
    SECOND,
    a_job,
    a_message,
    a_running_job,
    saying,
)
from tests.lane import Lane
from tests.world import Order, World, refuse_to_run


@dataclass
class OfOneKey:
    """A lane with two jobs of one key: the head waits six hours after its first try, the second fails once."""

    lane: Lane = field(init=False)
    failed: set[str | None] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.lane = Lane(World(handler=self.run, queue="webhooks.partner-a"))
        self.head = self.lane.submit(ordering_key="k", tenant="head")
        self.second = self.lane.submit(ordering_key="k", tenant="second")
        self.lane.for_(timedelta(seconds=1))

    def run(self, payload: Order, run: Any) -> None:
        if run.tenant not in self.failed:
            self.failed.add(run.tenant)
            raise TransientFailure("busy", retry_after=6 * 3600 if run.tenant == "head" else None)

    @property
    def states(self) -> list[State]:
        return [self.lane.found(job).state for job in (self.head, self.second)]


def test_a_fifo_group_stops_at_its_first_failure_and_returns_the_rest_untouched() -> None:
    """Batch g1a g1b g2a, g1a fails: g1b comes back unstarted, g2a completes."""
    world = World(queue="webhooks.partner-a")
    fifo = {"queue": "webhooks.partner-a"}
    g1a, g1b, g2a = (a_job(tenant=tenant, **fifo) for tenant in ("bad", "good", "good"))

    def handler(payload: Order, run: Any) -> None:
        if run.tenant == "bad":
            raise TransientFailure("x")

    world.handler = handler
    messages = [replace(world.submitted(job), group=group) for job, group in ((g1a, "1"), (g1b, "1"), (g2a, "2"))]
    assert world.run_batch(*messages) == [messages[0].message_id, messages[1].message_id]
    assert [world.found(m).state for m in messages] == [State.RETRYING, State.QUEUED, State.COMPLETED]
    assert world.found(messages[1]).attempts == 0
    assert world.mailbox.hidden[messages[1].message_id] == timedelta()


def test_a_fifo_group_runs_in_the_order_of_arrival() -> None:
    order: list[str] = []
    world = World(queue="webhooks.partner-a", handler=lambda payload, run: order.append(run.job_id))
    messages = [replace(world.submitted(a_job(queue="webhooks.partner-a")), group="k") for _ in range(4)]
    assert world.run_batch(*messages) == []
    assert order == [m.job_id for m in messages]


def test_the_tenant_group_of_a_standard_lane_does_not_serialise_it() -> None:
    together = threading.Barrier(3, timeout=10)
    world = World(handler=lambda payload, run: together.wait() and None)
    messages = [replace(world.submitted(a_job()), group="acme-eu") for _ in range(3)]
    assert world.run_batch(*messages) == []


def test_in_a_fifo_group_each_message_is_hidden_anew_as_its_turn_comes() -> None:
    world = World(queue="webhooks.partner-a", handler=lambda payload, run: world.clock.forward(2 * SECOND))
    messages = [replace(world.submitted(a_job(queue="webhooks.partner-a")), group="k") for _ in range(3)]
    world.run_batch(*messages)
    hides = [message_id for message_id, _ in world.mailbox.hides]
    assert [hides.count(m.message_id) for m in messages] == [1, 2, 2]


def test_a_crash_on_a_busy_fifo_lane_leaves_the_order_of_its_key() -> None:
    """The message of the interrupted job is there and first in its group; all workers are busy for two minutes (a batch
    of this lane may take 80 s). The sweeper requeues the job: a new doorbell at the end, the old one stale.
    """
    order: list[str] = []
    world = World(handler=lambda payload, run: order.append(run.tenant), queue="webhooks.partner-a")
    world.deadline = 18 * SECOND
    fields: dict[str, Any] = {"queue": "webhooks.partner-a", "ordering_key": "k"}
    first = replace(world.submitted(a_running_job(tenant="first", **fields)), group="k")
    second = replace(world.submitted(a_job(tenant="second", outbox=None, published_at=NOW, **fields)), group="k")
    world.clock.forward(2 * MINUTE)
    ports = SweeperPorts(
        store=world.store,
        dead_letters=None,
        clock=world.clock,
        log=world.log,
        meter=world.meter,
        queues=QUEUES,  # type: ignore[arg-type]
    )
    sweep_job(first.job_id, ports, queue_empty=False)
    assert world.run_batch(first, second) == []
    job = world.found(first)
    if job.state is State.QUEUED:
        world.run_batch(saying(saying(a_message(job), suspect=True), group="k"))
    assert order == ["first", "second"]


def test_a_retrying_fifo_job_whose_mark_never_landed_keeps_its_place_on_a_busy_lane() -> None:
    """The doorbell was sent, the job failed once and waits in place; only the relay's mark is missing. All workers are
    busy for a minute past its time: redispatched, it stands behind its successor.
    """
    order: list[str] = []
    world = World(handler=lambda payload, run: order.append(run.tenant), queue="webhooks.partner-a")
    world.deadline = 18 * SECOND
    fields: dict[str, Any] = {"queue": "webhooks.partner-a", "ordering_key": "k"}
    waits = a_job(tenant="first", state=State.RETRYING, run=1, attempts=1, next_attempt_at=NOW, **fields)
    first = replace(world.submitted(waits), group="k", receives=2)
    second = replace(world.submitted(a_job(tenant="second", outbox=None, published_at=NOW, **fields)), group="k")
    world.clock.forward(62 * SECOND)
    ports = SweeperPorts(
        store=world.store,
        dead_letters=None,
        clock=world.clock,
        log=world.log,
        meter=world.meter,
        queues=QUEUES,  # type: ignore[arg-type]
    )
    sweep_job(first.job_id, ports, queue_empty=False)
    assert world.run_batch(first, second) == []
    job = world.found(first)
    if job.state is State.QUEUED:
        world.run_batch(replace(a_message(job), group="k"))
    assert order == ["first", "second"]


def test_a_fifo_job_of_a_type_that_no_worker_knows_waits_ever_longer_in_its_place_until_its_deadline() -> None:
    lane = Lane(World(handler=refuse_to_run, queue="webhooks.partner-a"))
    job = lane.submit(type="unheard-of", deadline_at=NOW + timedelta(days=10))
    lane.for_(timedelta(days=9))
    assert lane.found(job).state is State.RETRYING
    assert lane.dead.messages == {}
    lane.until(lambda: lane.found(job).state is State.EXPIRED)


def test_a_job_that_waited_for_days_behind_another_has_spent_nothing() -> None:
    of_one_key = OfOneKey()
    lane = of_one_key.lane
    lane.without_table(timedelta(days=3))
    assert lane.message(of_one_key.second).receives > 100
    lane.until(lambda: lane.found(of_one_key.second).state is State.RETRYING)
    second = lane.found(of_one_key.second)
    assert second.next_attempt_at == lane.world.clock.now() + 5 * SECOND, "the first wait of its policy"
    lane.until(lambda: lane.found(of_one_key.second).state is State.COMPLETED)
    assert lane.found(of_one_key.head).state is State.COMPLETED


@pytest.mark.parametrize("act", ["cancel", "cancel and replay"])
def test_cancelling_a_fifo_job_that_waits_six_hours_frees_its_key_within_a_quarter_of_an_hour(act: str) -> None:
    of_one_key = OfOneKey()
    lane = of_one_key.lane
    assert of_one_key.states == [State.RETRYING, State.QUEUED]
    operator = OperatorPorts(store=lane.world.store, clock=lane.world.clock, log=lane.world.log)
    cancel(of_one_key.head.job_id, "ada", "wrong", operator)
    if act == "cancel and replay":
        replay(of_one_key.head.job_id, "ada", "right after all", operator)
    assert lane.until(lambda: of_one_key.states[1] is State.COMPLETED) <= 15 * MINUTE + 6 * SECOND
    if act == "cancel and replay":
        lane.until(lambda: of_one_key.states == [State.COMPLETED] * 2, timedelta(minutes=1))
