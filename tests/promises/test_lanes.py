"""A job type moves to another lane: what becomes of the jobs that wait on the old one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job, open_key
from shared.domain.outcome import Outcome
from shared.domain.states import REROUTE_REST, State
from shared.domain.writes import Write
from shared.operations.redrive import OperatorPorts, cancel, replay
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import NOW, SECOND, a_job, a_message, a_running_job, saying
from tests.world import World, refuse_to_run

OLD, NEW = "emails.bulk", "exports.month-end"
"""The second has more time, more memory and other rights."""


def moved(**fields: Any) -> World:
    """A worker of the old lane that knows the type on the new one, with a deadline beyond its own time."""
    given = {"handler": refuse_to_run, "deadline": timedelta(minutes=5), "time_left": QUEUES[OLD].function_timeout}
    return World(queue=OLD, declared_for=NEW, **(given | fields))


def waiting(world: World, **fields: Any) -> Message:
    return world.submitted(a_job(queue=OLD, **fields))


def lane_of(job: Job) -> tuple[str, str | None]:
    return job.queue, job.open_key


def test_a_job_whose_type_moved_to_a_lane_with_more_time_is_rung_there_and_its_old_message_goes() -> None:
    world = moved()
    message = waiting(world)
    assert world.run_batch(message) == []
    job = world.found(message)
    assert (job.state, job.dispatch, job.outbox, job.attempts, job.run) == (State.QUEUED, 2, "open", 0, 0)
    assert lane_of(job) == (NEW, open_key(NEW, job.job_id))
    assert world.meter.outcomes() == ["rerouted"]


def test_the_new_lanes_worker_runs_it() -> None:
    world, starts = moved(), []
    message = waiting(world)
    world.deliver(message)
    there = World(queue=NEW, handler=lambda payload, run: starts.append(run.job_id), store=world.store)
    there.deliver(a_message(world.found(message)))
    assert starts == [message.job_id]
    assert world.found(message).state is State.COMPLETED


@pytest.mark.parametrize("lane", [OLD, "emails.high"])
def test_a_job_that_its_lane_can_run_as_well_stays_and_keeps_its_place(lane: str) -> None:
    """Moved for its priority: the old lane has the time, the memory and the rights."""
    starts: list[str] = []
    world = World(queue=OLD, declared_for=lane, deadline=20 * SECOND, handler=lambda p, run: starts.append(run.job_id))
    message = waiting(world)
    assert world.deliver(message) is Outcome.COMPLETED
    assert starts == [message.job_id]


@pytest.mark.parametrize(
    ("lane", "lacks"),
    [("thumbnails", "memory"), ("webhooks.partner-a", "rights")],
)
def test_a_job_that_needs_what_its_old_lane_has_not_is_rung_on_the_new_one(lane: str, lacks: str) -> None:
    world = moved(deadline=10 * SECOND)
    world.declared_for = lane
    message = waiting(world)
    assert world.deliver(message) is Outcome.REROUTED, lacks
    assert world.found(message).queue == lane


def test_a_retry_whose_time_has_come_moves_and_one_that_comes_early_waits_for_its_time_first() -> None:
    world = moved()
    message = waiting(world, state=State.RETRYING, next_attempt_at=NOW + 30 * SECOND, attempts=1)
    assert world.deliver(message) is Outcome.WAITING
    assert world.mailbox.hidden[message.message_id] == 30 * SECOND
    world.clock.forward(30 * SECOND)
    assert world.deliver(message) is Outcome.REROUTED
    job = world.found(message)
    assert (job.state, job.queue, job.attempts, job.next_attempt_at) == (State.QUEUED, NEW, 1, None)


def test_what_waited_in_due_is_promoted_to_the_old_lane_and_moves_from_there() -> None:
    world = moved()
    at = NOW + timedelta(hours=1)
    job = a_job(queue=OLD, state=State.SCHEDULED, due_key="due#0", due_at=at, run_at=at, dispatch=0, outbox=None)
    world.submitted(job)
    world.store.due = lambda shard, horizon: [job.job_id] if shard == 0 else []  # type: ignore[method-assign]
    world.clock.forward(timedelta(hours=1))
    assert world.promote() == 1
    assert world.deliver(a_message(world.found(a_message(job)))) is Outcome.REROUTED


def test_a_job_asked_to_stop_or_past_its_deadline_ends_instead_of_moving() -> None:
    world = moved()
    asked = waiting(world, state=State.QUEUED, cancel_request={"who": "ada", "why": "wrong month"})
    late = waiting(world, deadline_at=NOW)
    assert [world.deliver(asked), world.deliver(late)] == [Outcome.CANCELLED, Outcome.EXPIRED]


def test_a_job_whose_worker_vanished_on_the_old_lane_gets_there_as_a_suspect() -> None:
    world = moved()
    running = a_running_job(queue=OLD, lease_expires_at=NOW - 10 * SECOND)
    assert world.deliver(world.submitted(running)) is Outcome.STALE
    requeued = world.found(a_message(running))
    assert (requeued.state, requeued.stalls) == (State.QUEUED, 1)
    assert world.deliver(a_message(requeued, suspect=True)) is Outcome.REROUTED
    job = world.found(a_message(running))
    assert (job.queue, job.stalls, job.attempts) == (NEW, 1, 1)
    assert [run.error_code for run in world.store.runs(job)] == ["worker-vanished"]


def test_a_job_that_a_living_worker_holds_stays_with_it() -> None:
    world = moved()
    running = a_running_job(queue=OLD)
    assert world.deliver(world.submitted(running)) is Outcome.WAITING
    assert world.found(a_message(running)) == running


def test_an_old_doorbell_of_a_job_that_has_moved_is_dropped() -> None:
    world = moved()
    message = waiting(world)
    world.deliver(message)
    before = world.found(message)
    assert world.deliver(message) is Outcome.STALE
    assert world.found(message) == before


def test_workers_of_two_versions_send_a_job_back_and_forth_once_in_a_deployment_at_most() -> None:
    """Each knows the type on the other's lane: the second one runs what it got."""
    starts: list[str] = []
    world = moved(deadline=10 * SECOND)
    world.declared_for = "thumbnails"
    message = waiting(world)
    assert world.deliver(message) is Outcome.REROUTED
    older = World(
        queue="thumbnails", declared_for=OLD, deadline=10 * SECOND, store=world.store, clock=world.clock,
        handler=lambda payload, run: starts.append(run.job_id),
    )  # fmt: skip
    assert older.deliver(a_message(world.found(message))) is Outcome.COMPLETED
    assert starts == [message.job_id]


def test_one_that_is_sent_where_nobody_has_the_time_waits_says_why_and_moves_on_after_the_deployment() -> None:
    world = moved()
    message = waiting(world, rerouted_at=NOW - timedelta(minutes=1))
    assert world.deliver(message) is Outcome.DEFERRED
    job = world.found(message)
    assert (job.state, job.queue, job.attempts) == (State.RETRYING, OLD, 0)
    assert job.reason is not None
    assert NEW in job.reason
    world.clock.forward(REROUTE_REST)
    assert world.deliver(message) is Outcome.REROUTED


@pytest.mark.parametrize("answered", [True, False])
def test_a_reroute_that_landed_without_its_answer_is_not_made_again(answered: bool) -> None:
    world = moved()
    message, plain = waiting(world), world.store.apply

    def twice(job_id: str, write: Write) -> Job:
        plain(job_id, write)
        return plain(job_id, write)

    if not answered:
        world.store.apply = twice  # type: ignore[method-assign]
    assert world.deliver(message) in (Outcome.REROUTED, Outcome.STALE)
    assert (world.found(message).dispatch, world.found(message).queue) == (2, NEW)


def test_a_dead_job_is_replayed_on_the_lane_of_its_type_also_where_the_old_one_is_gone() -> None:
    world = moved()
    for state in (State.DEAD, State.QUEUED):
        job = a_job(queue="gone.lane", state=state)
        world.submitted(job)
        ports = OperatorPorts(store=world.store, clock=world.clock, log=world.log, lane_of={job.type: NEW}.get)
        if state is State.QUEUED:
            cancel(job.job_id, "ada", "its lane is gone", ports)
        assert lane_of(replay(job.job_id, "ada", "its lane is gone", ports)) == (NEW, open_key(NEW, job.job_id))


def test_a_job_of_a_type_that_nobody_knows_is_replayed_where_it_was() -> None:
    world = moved()
    job = a_job(queue=OLD, state=State.DEAD)
    world.submitted(job)
    ports = OperatorPorts(store=world.store, clock=world.clock, log=world.log)
    assert lane_of(replay(job.job_id, "ada", "mended", ports)) == (OLD, open_key(OLD, job.job_id))


def test_a_redriven_copy_of_a_dead_job_goes_round_by_the_old_lane() -> None:
    world = moved()
    message = waiting(world, state=State.DEAD)
    assert world.deliver(saying(message, dead_letter=True)) is Outcome.REPLAYED
    assert world.deliver(a_message(world.found(message))) is Outcome.REROUTED
