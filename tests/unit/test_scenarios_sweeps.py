"""Sweeps that are cut short, or have much to look at, on the twin.

The walk over the index comes with the sweeper's timer; here a driver hands the operations the ids it knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.retry import FailureClass
from shared.domain.states import State
from shared.operations.redrive import OperatorPorts, replay
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.sweep import Repaired, SweeperPorts, sweep_dead_letters, sweep_job
from shared.queues import QUEUES
from tests.builders import (
    NOW,
    MemoryDeadLetters,
    MemoryDoorbell,
    RecordedLog,
    RecordedMeter,
    TestClock,
    a_job,
    a_message,
    a_minute_left,
    a_running_job,
)
from tests.chaos.process import Killed, Process, Strike
from tests.world import World

LANE = QUEUES["exports.month-end"]
MINUTE = timedelta(minutes=1)
UNRUN = {"outbox": None, "published_at": NOW}


@dataclass
class Sweeper:
    """Its ticks, each of which may be killed after so many calls; between them every hidden message shows again."""

    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    dlq: MemoryDeadLetters = field(default_factory=MemoryDeadLetters)
    clock: TestClock = field(default_factory=TestClock)
    log: RecordedLog = field(default_factory=RecordedLog)

    def submitted(self, *jobs: Job) -> list[Job]:
        for job in jobs:
            self.store.submit(job, NOW)
        return list(jobs)

    def ports(self, process: Process) -> SweeperPorts:
        return SweeperPorts(
            store=process.port("store", self.store),
            dead_letters=process.port("dead_letters", self.dlq),
            clock=self.clock,
            log=self.log,
            meter=RecordedMeter(),
            queues=QUEUES,
        )

    def tick(self, jobs: list[Job], killed_at: int = 0, before: bool = False) -> list[Repaired] | None:
        """Everything there is, the DLQ first; None when it was killed."""
        self.dlq.next_look()
        ports = self.ports(Process(Strike(at_call=killed_at, before=before)))
        try:
            repaired = sweep_dead_letters(LANE, ports)
            swept = [sweep_job(job.job_id, ports, queue_empty=False) for job in jobs]
            return repaired + [one for one in swept if one is not None]
        except Killed:
            return None

    def states(self, jobs: list[Job]) -> set[State]:
        return {found.state for job in jobs if (found := self.store.get(job.job_id)) is not None}


@pytest.mark.parametrize("before", [True, False], ids=["before the call", "after it"])
@pytest.mark.parametrize("killed_at", [(1, 2, 3), (4, 17, 40), (20, 21, 22)])
def test_a_sweep_of_a_dlq_killed_three_times_in_mid_page_leaves_nothing_for_good(
    killed_at: tuple[int, ...], before: bool
) -> None:
    """SCENARIOS 5."""
    sweeper = Sweeper()
    jobs = sweeper.submitted(*(a_job(**UNRUN) for _ in range(35)))
    sweeper.dlq.standing = [a_message(job) for job in jobs]
    for call in killed_at:
        assert sweeper.tick(jobs, call, before) is None
    assert sweeper.states(jobs) != {State.DEAD}, "the kills came before it was done"
    assert sweeper.tick(jobs) is not None
    assert sweeper.states(jobs) == {State.DEAD}
    assert sweeper.dlq.standing == []
    assert {sweeper.store.get(job.job_id).dispatch for job in jobs} == {2}, "each parked once"  # type: ignore[union-attr]


@pytest.mark.parametrize("killed_at", [(2, 4, 6), (7, 7, 7)])
def test_orphans_of_a_sweep_killed_three_times_are_found_by_the_next(killed_at: tuple[int, ...]) -> None:
    """SCENARIOS 5. What was repaired by a killed tick is not repaired again: one stall each."""
    sweeper = Sweeper()
    jobs = sweeper.submitted(*(a_running_job() for _ in range(12)))
    sweeper.clock.forward(2 * MINUTE)
    for call in killed_at:
        assert sweeper.tick(jobs, call) is None
    assert sweeper.states(jobs) == {State.RUNNING, State.QUEUED}
    assert sweeper.tick(jobs) is not None
    found = [sweeper.store.get(job.job_id) for job in jobs]
    assert {(job.state, job.stalls, job.dispatch) for job in found if job} == {(State.QUEUED, 1, 2)}
    assert all(len(sweeper.store.runs(job)) <= 1 for job in jobs)


def test_a_thousand_healthy_jobs_before_a_stuck_one_do_not_hide_it_and_are_left_alone() -> None:
    """SCENARIOS 6. Each of them has run for hours, on a lease that it renews."""
    sweeper = Sweeper()
    now = NOW + timedelta(hours=5)
    healthy = sweeper.submitted(*(a_running_job(lease_expires_at=now + MINUTE / 3) for _ in range(1000)))
    (stuck,) = sweeper.submitted(a_running_job(lease_expires_at=now - 2 * MINUTE))
    sweeper.clock.at = now
    written = len(sweeper.store.images)
    repaired = sweeper.tick([*healthy, stuck])
    assert repaired is not None
    assert [(one.job_id, one.invariant, one.done) for one in repaired] == [(stuck.job_id, "expired-lease", True)]
    assert len(sweeper.store.images) == written + 1
    assert sweeper.states(healthy) == {State.RUNNING}


def test_a_job_that_was_never_run_is_parked_by_the_sweeper_replayed_by_an_operator_and_then_runs_once() -> None:
    """SCENARIOS 9. The whole way: throttled until SQS gave up, parked, marked copy, replay, completed, copy dropped."""
    ran: list[str] = []
    sweeper, doorbell = Sweeper(), MemoryDoorbell()
    world = World(handler=lambda payload, run: ran.append(run.job_id), store=sweeper.store, clock=sweeper.clock)
    (job,) = sweeper.submitted(a_job(**UNRUN))
    sweeper.dlq.standing = [a_message(job, receives=LANE.max_receives + 1)]
    assert sweeper.tick([]) == [Repaired(job.job_id, "parked-by-sqs", "park", True)]
    parked = world.found(a_message(job))
    assert (parked.state, parked.attempts, parked.error_class) == (State.DEAD, 0, FailureClass.NEVER_RAN)

    ports = RelayPorts(
        store=sweeper.store,
        doorbell=doorbell,
        clock=sweeper.clock,
        log=sweeper.log,
        queues=QUEUES,
        time_left=a_minute_left,
    )
    relay([OutboxRecord({}, parked)], ports)
    ((_, copy),) = doorbell.sent
    assert (copy.dead_letter, copy.dispatch, copy.attributes["error_class"]) == (True, 2, FailureClass.NEVER_RAN)
    marked = a_message(parked, dead_letter_mark=True)
    sweeper.dlq.standing = [marked]
    assert sweeper.tick([]) == [], "the copy tells the truth"

    operator = OperatorPorts(store=sweeper.store, clock=sweeper.clock, log=sweeper.log)
    replayed = replay(job.job_id, "ada", "throttling is over", operator)
    assert world.deliver(a_message(replayed)) is Outcome.COMPLETED
    assert (ran, world.found(marked).attempts) == ([job.job_id], 1)
    assert sweeper.tick([]) == [Repaired(job.job_id, "stale-dead-letter", "drop", True)]


def test_a_completed_job_whose_message_reached_the_dlq_stays_completed_and_its_copy_is_dropped_and_counted() -> None:
    """SCENARIOS 13. Three of ten acknowledgements fail; their messages come back, and one is moved away by SQS."""
    ran: list[str] = []
    sweeper = Sweeper()
    world = World(handler=lambda payload, run: ran.append(run.job_id), store=sweeper.store, clock=sweeper.clock)
    messages = [world.submitted(a_job()) for _ in range(10)]
    assert world.run_batch(*messages) == []
    unacknowledged = messages[:3]
    assert world.run_batch(*unacknowledged[:2]) == []
    sweeper.dlq.standing = [unacknowledged[2]]
    assert sweeper.tick([]) == [Repaired(unacknowledged[2].job_id, "stale-dead-letter", "drop", True)]
    assert sweeper.dlq.standing == []
    assert len(ran) == 10
    assert {world.found(message).state for message in messages} == {State.COMPLETED}
    assert [line["invariant"] for name, line in sweeper.log.lines if name == "swept"] == ["stale-dead-letter"]


@pytest.mark.parametrize("first", ["the relay's", "the sweeper's"])
def test_a_doorbell_whose_mark_never_landed_is_rung_again_by_the_sweeper_and_runs_once(first: str) -> None:
    """SCENARIOS 22. The relay died after sending and the stream gave its record up: both copies are in the queue, and
    whichever comes first runs, since a repair's doorbell does not make the other stale.
    """
    ran: list[Any] = []
    sweeper = Sweeper()
    world = World(handler=lambda payload, run: ran.append(run.attempt), store=sweeper.store, clock=sweeper.clock)
    (job,) = sweeper.submitted(a_job())
    sweeper.clock.forward(2 * MINUTE)
    assert sweeper.tick([job]) == [Repaired(job.job_id, "unpublished", "ring-again", True)]
    copies = [a_message(job), a_message(world.found(a_message(job)))]
    if first == "the sweeper's":
        copies.reverse()
    assert [world.deliver(copy) for copy in copies] == [Outcome.COMPLETED, Outcome.STALE]
    assert ran == [1]
