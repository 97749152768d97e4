"""An operator's acts on one job."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import EFFECT_COMPLETED, RETENTION, Effect, Job
from shared.domain.states import COMPLETE, FINAL, LEASE, Seen, State
from shared.domain.writes import Write
from shared.errors import MoveRefused, PayloadMissing, TransientFailure
from shared.operations.redrive import OperatorPorts, cancel, replay
from tests.builders import NOW, RecordedLog, TestClock, a_job, a_message, a_running_job, saying
from tests.world import World as WorkerWorld
from tests.world import raising

ASKED = ("ada", "wrong month")


LEASED = {"holder": "h", "lease_expires_at": NOW + timedelta(seconds=30), "started_at": NOW, "code_version": "abc1234"}


@dataclass
class World:
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    clock: TestClock = field(default_factory=TestClock)
    log: RecordedLog = field(default_factory=RecordedLog)

    @property
    def ports(self) -> OperatorPorts:
        return OperatorPorts(store=self.store, clock=self.clock, log=self.log)

    def submitted(self, **fields: Any) -> Job:
        job = a_job(**fields)
        self.store.submit(job, NOW)
        return job


@pytest.mark.parametrize("state", [State.SCHEDULED, State.QUEUED, State.RETRYING, State.DEAD])
def test_a_job_that_no_worker_has_is_cancelled_at_once_with_who_and_why(state: State) -> None:
    world = World()
    job = cancel(world.submitted(state=state).job_id, *ASKED, world.ports)
    assert (job.state, job.cancelled_by, job.reason) == (State.CANCELLED, "ada", "wrong month")
    assert job.open_key is None
    assert job.expires_at is not None


def test_a_running_job_is_asked_to_stop_and_goes_on_until_it_hears_of_it() -> None:
    world = World()
    running = a_running_job()
    world.store.submit(running, NOW)
    job = cancel(running.job_id, *ASKED, world.ports)
    assert (job.state, job.cancel_request) == (State.RUNNING, {"who": "ada", "why": "wrong month"})


@pytest.mark.parametrize("state", sorted(FINAL - {State.DEAD}))
def test_a_job_that_has_ended_is_not_cancelled_and_the_operator_is_told_its_state(state: State) -> None:
    world = World()
    with pytest.raises(MoveRefused, match=state):
        cancel(world.submitted(state=state).job_id, *ASKED, world.ports)


def test_a_job_that_nobody_knows_is_refused_by_name() -> None:
    for act in (cancel, replay):
        with pytest.raises(MoveRefused, match="no record"):
            act(a_job().job_id, *ASKED, World().ports)


def test_a_cancel_that_races_with_the_lease_and_then_with_completion_has_one_winner_each_time() -> None:
    """SCENARIOS 35."""
    world = World()
    job = world.submitted()
    plain_get, looks = world.store.get, []

    def moves_on(job_id: str) -> Job | None:
        found = plain_get(job_id)
        looks.append(found)
        if len(looks) == 1:
            world.store.apply(job_id, Write(LEASE, Seen(now=NOW, dispatch=1), LEASED))
        elif len(looks) == 2:
            ends = {"completed_at": NOW, "expires_at": NOW + timedelta(days=1)}
            world.store.apply(job_id, Write(COMPLETE, Seen(run=1, holder="h"), ends))
        return found

    world.store.get = moves_on  # type: ignore[method-assign]
    with pytest.raises(MoveRefused) as refused:
        cancel(job.job_id, *ASKED, world.ports)
    assert refused.value.found is not None
    assert refused.value.found.state is State.COMPLETED


@pytest.mark.parametrize("state", [State.DEAD, State.EXPIRED, State.CANCELLED])
def test_a_replay_starts_a_job_anew_and_keeps_its_recorded_effects(state: State) -> None:
    world = World()
    charged = {"charge": Effect(status=EFFECT_COMPLETED, run=2, at=NOW, outcome='{"outcome":"ch_1"}')}
    asked = {"cancel_request": {"who": "x", "why": "y"}, "expires_at": NOW}
    ended = {"attempts": 6, "stalls": 1, "run": 6, "deadline_at": NOW, "dispatch": 4, "effects": charged}
    job = world.submitted(state=state, **asked, **ended)
    world.clock.forward(timedelta(hours=1))
    job = replay(job.job_id, *ASKED, world.ports)
    assert (job.state, job.dispatch, job.outbox, job.attempts, job.stalls) == (State.QUEUED, 5, "open", 0, 0)
    assert job.deadline_at == world.clock.now() + timedelta(seconds=job.max_age_seconds)
    assert (job.cancel_request, job.expires_at, job.effects) == (None, None, charged)


@pytest.mark.parametrize("state", [State.COMPLETED, State.QUEUED, State.RUNNING, State.RETRYING, State.SCHEDULED])
def test_only_a_job_that_stopped_short_is_replayed(state: State) -> None:
    world = World()
    with pytest.raises(MoveRefused, match=state):
        replay(world.submitted(state=state).job_id, *ASKED, world.ports)


def test_a_job_is_replayed_once_by_two_operators_who_saw_the_same_death() -> None:
    world = World()
    job = world.submitted(state=State.DEAD)
    replay(job.job_id, *ASKED, world.ports)
    with pytest.raises(MoveRefused):
        replay(job.job_id, *ASKED, world.ports)


def test_a_late_replay_keeps_the_stored_payload_as_long_as_the_job_may_need_it() -> None:
    world = World()
    job = world.submitted(state=State.DEAD, payload=None, payload_ref=b"ref")
    world.store.put_payload(job.job_id, b"ref", "{}", NOW)
    job = replay(job.job_id, *ASKED, world.ports)
    world.store.expire_beside(job.deadline_at + RETENTION[State.DEAD])
    assert world.store.get_payload(job.job_id, b"ref") == "{}"


def test_a_native_redrive_keeps_the_stored_payload_as_long_as_a_replay_does() -> None:
    world = WorkerWorld(handler=raising(TransientFailure("busy")))
    job = a_job(state=State.DEAD, payload=None, payload_ref=b"ref")
    world.store.put_payload(job.job_id, b"ref", "{}", NOW)
    message = world.submitted(job)
    world.deliver(saying(message, dead_letter=True))
    replayed = world.found(message)
    assert replayed.state is State.QUEUED
    world.store.expire_beside(replayed.deadline_at + RETENTION[State.DEAD])
    assert world.store.get_payload(job.job_id, b"ref") == "{}"


def test_a_job_whose_stored_payload_is_gone_is_not_replayed_to_die_again() -> None:
    world = World()
    job = world.submitted(state=State.DEAD, payload=None, payload_ref=b"ref")
    with pytest.raises(PayloadMissing, match="submit its work again"):
        replay(job.job_id, *ASKED, world.ports)
    found = world.store.get(job.job_id)
    assert found is not None
    assert found.state is State.DEAD


def test_a_cancelled_job_never_starts_and_a_replayed_one_does() -> None:
    world = WorkerWorld()
    message = world.submitted(a_job())
    ports = OperatorPorts(store=world.store, clock=world.clock, log=world.log)
    cancel(message.job_id, *ASKED, ports)
    world.deliver(message)
    assert world.found(message).run == 0
    replay(message.job_id, *ASKED, ports)
    world.deliver(a_message(world.found(message)))
    assert world.found(message).state is State.COMPLETED


def test_a_job_replayed_before_its_time_is_not_held_back_by_that_time_at_each_retry() -> None:
    """It was asked to run now; its first time is of no meaning any more."""
    world = WorkerWorld(handler=raising(TransientFailure("busy", retry_after=600)))
    later = NOW + timedelta(hours=3)
    job = a_job(state=State.SCHEDULED, run_at=later, due_at=later, due_key="due#0", dispatch=0, outbox=None)
    world.submitted(job)
    ports = OperatorPorts(store=world.store, clock=world.clock, log=world.log)
    cancel(job.job_id, *ASKED, ports)
    replay(job.job_id, *ASKED, ports)
    message = a_message(replace(job, dispatch=world.store.get(job.job_id).dispatch))  # type: ignore[union-attr]
    world.deliver(message)
    retried = world.found(world.when_due(message))
    assert retried.available_at is not None
    assert retried.available_at < NOW + timedelta(hours=1)
