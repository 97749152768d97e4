"""The sweeper's repairs on the in-memory twin."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.domain.job import Job
from shared.domain.repair import Repair
from shared.domain.retry import FailureClass
from shared.domain.states import COMPLETE, LEASE, MARK, Seen, State
from shared.errors import MoveRefused, StoreUnavailable
from shared.operations.sweep import Repaired, SweeperPorts, sweep_dead_letters, sweep_job
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import (
    NOW,
    MemoryDeadLetters,
    RecordedLog,
    RecordedMeter,
    TestClock,
    a_job,
    a_message,
    a_running_job,
)

LANE = QUEUES["exports.month-end"]
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
LEASED = {"holder": "h", "lease_expires_at": NOW + MINUTE, "started_at": NOW, "code_version": "abc1234"}


@dataclass
class World:
    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    dlq: MemoryDeadLetters = field(default_factory=MemoryDeadLetters)
    clock: TestClock = field(default_factory=TestClock)
    log: RecordedLog = field(default_factory=RecordedLog)
    meter: RecordedMeter = field(default_factory=RecordedMeter)

    @property
    def ports(self) -> SweeperPorts:
        return SweeperPorts(
            store=self.store, dead_letters=self.dlq, clock=self.clock, log=self.log, meter=self.meter, queues=QUEUES
        )

    def submitted(self, job: Job) -> Job:
        self.store.submit(job, NOW)
        return job

    def sweep(self, job: Job, after: timedelta, **options: Any) -> tuple[Repaired | None, Job]:
        self.clock.at = NOW + after
        repaired = sweep_job(job.job_id, self.ports, **({"queue_empty": False} | options))
        found = self.store.get(job.job_id)
        assert found is not None
        return repaired, found

    def sweep_dlq(self, *messages: Message, **options: Any) -> list[tuple[str, bool]]:
        self.dlq.standing += messages
        self.dlq.next_look()
        return [(one.invariant, one.done) for one in sweep_dead_letters(LANE, self.ports, **options)]


def test_a_doorbell_rung_again_is_the_same_doorbell() -> None:
    """A new dispatch would make the message that is still in a slow stream stale, for ever."""
    world = World()
    repaired, job = world.sweep(world.submitted(a_job()), 2 * MINUTE)
    assert repaired == Repaired(job.job_id, "unpublished", Repair.RING_AGAIN, done=True)
    assert (job.dispatch, job.outbox, job.rung_at) == (1, "open", NOW + 2 * MINUTE)
    assert len(world.store.images) == 2, "the stream has it again"


def test_a_relay_that_marks_while_the_sweeper_looks_wins() -> None:
    world = World()
    job = world.submitted(a_job())
    plain_get = world.store.get

    def marked_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        world.store.apply(job_id, MARK, Seen(dispatch=1), published_at=NOW)
        return found

    world.store.get = marked_meanwhile  # type: ignore[method-assign]
    world.clock.forward(2 * MINUTE)
    repaired = sweep_job(job.job_id, world.ports, queue_empty=False)
    assert repaired is not None
    assert not repaired.done
    found = plain_get(job.job_id)
    assert found is not None
    assert (found.outbox, found.rung_at) == (None, None)


def test_a_lapsed_job_is_requeued_as_one_stall_and_its_old_message_is_stale() -> None:
    world = World()
    repaired, job = world.sweep(world.submitted(a_running_job()), 2 * MINUTE)
    assert repaired is not None
    assert (repaired.invariant, repaired.done) == ("expired-lease", True)
    assert (job.state, job.dispatch, job.outbox, job.stalls, job.attempts) == (State.QUEUED, 2, "open", 1, 1)
    assert [run.error_code for run in world.store.runs(job)] == ["worker-vanished"]


def test_a_job_that_completes_while_the_sweeper_looks_stays_completed_and_the_lost_race_is_counted() -> None:
    """SCENARIOS 2."""
    world = World()
    job = world.submitted(a_running_job())
    plain_get = world.store.get

    def completed_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        ends = {"completed_at": NOW, "expires_at": NOW + timedelta(days=1)}
        world.store.apply(job_id, COMPLETE, Seen(run=1, holder="holder-1"), **ends)
        return found

    world.store.get = completed_meanwhile  # type: ignore[method-assign]
    world.clock.forward(2 * MINUTE)
    repaired = sweep_job(job.job_id, world.ports, queue_empty=False)
    assert repaired is not None
    assert not repaired.done
    found = plain_get(job.job_id)
    assert found is not None
    assert found.state is State.COMPLETED


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"stalls": 1}, State.DEAD),
        ({"deadline_at": NOW + MINUTE}, State.EXPIRED),
        ({"cancel_request": {"who": "op", "why": "stop"}}, State.CANCELLED),
    ],
)
def test_a_lapsed_job_that_may_not_start_again_ends_where_it_belongs(fields: dict[str, Any], state: State) -> None:
    """SCENARIOS 12: killed without an exception until its budget is gone, never stuck in running."""
    world = World()
    repaired, job = world.sweep(world.submitted(a_running_job(**fields)), 2 * MINUTE)
    assert repaired is not None
    assert (repaired.done, job.state) == (True, state)
    assert job.expires_at is not None


def test_a_lost_retry_gets_a_new_doorbell() -> None:
    world = World()
    waits = {"state": State.RETRYING, "next_attempt_at": NOW, "attempts": 1, "outbox": None, "published_at": NOW}
    job = world.submitted(a_job(**waits))
    assert world.sweep(job, 6 * MINUTE)[0] is None
    repaired, job = world.sweep(job, 6 * MINUTE, queue_empty=True)
    assert repaired is not None
    assert (repaired.invariant, job.state, job.dispatch, job.outbox) == ("lost-doorbell", State.QUEUED, 2, "open")


def test_an_overdue_job_is_promoted() -> None:
    world = World()
    job = a_job(state=State.SCHEDULED, dispatch=0, outbox=None, due_at=NOW, due_key="due#0")
    repaired, job = world.sweep(world.submitted(job), 3 * MINUTE)
    assert repaired is not None
    assert (repaired.done, job.state, job.dispatch, job.outbox) == (True, State.QUEUED, 1, "open")


def test_a_dry_run_names_every_repair_and_makes_none() -> None:
    world = World()
    job = world.submitted(a_running_job())
    repaired, after = world.sweep(job, 2 * MINUTE, dry_run=True)
    assert repaired == Repaired(job.job_id, "expired-lease", Repair.REQUEUE, done=False)
    assert after == job
    assert world.sweep_dlq(a_message(job), dry_run=True) == [("parked-by-sqs", False)]
    assert len(world.dlq.standing) == 1


def test_what_sqs_moved_away_unrun_is_parked_as_never_ran_and_its_message_goes() -> None:
    """SCENARIOS 9."""
    world = World()
    job = world.submitted(a_job(outbox=None, published_at=NOW))
    assert world.sweep_dlq(a_message(job)) == [("parked-by-sqs", True)]
    found = world.store.get(job.job_id)
    assert found is not None
    assert (found.state, found.error_class, found.attempts) == (State.DEAD, FailureClass.NEVER_RAN, 0)
    assert (found.dispatch, found.outbox) == (2, "open"), "the relay puts a marked copy in its place"
    assert world.dlq.standing == []


def test_what_sqs_moved_away_after_its_worker_vanished_is_parked_as_stalled() -> None:
    world = World()
    job = world.submitted(a_running_job())
    assert world.sweep_dlq(a_message(job)) == [], "its worker may live"
    world.clock.forward(MINUTE)
    assert world.sweep_dlq() == [("parked-by-sqs", True)]
    found = world.store.get(job.job_id)
    assert found is not None
    assert (found.state, found.error_class) == (State.DEAD, FailureClass.STALLED)
    assert [run.run for run in world.store.runs(job)] == [1], "the run that ended without a word is in the history"


def test_a_job_that_a_second_copy_brought_to_a_worker_is_not_parked() -> None:
    world = World()
    job = world.submitted(a_job(outbox=None, published_at=NOW))
    plain_get = world.store.get

    def leased_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        world.store.apply(job_id, LEASE, Seen(now=NOW, dispatch=1), **LEASED)
        return found

    world.store.get = leased_meanwhile  # type: ignore[method-assign]
    assert world.sweep_dlq(a_message(job)) == [("parked-by-sqs", False)]
    found = plain_get(job.job_id)
    assert found is not None
    assert found.state is State.RUNNING
    assert len(world.dlq.standing) == 1


def test_a_copy_of_a_job_that_is_not_dead_any_more_is_dropped_and_counted() -> None:
    """SCENARIOS 13."""
    world = World()
    ended = world.submitted(a_job(state=State.COMPLETED, outbox=None))
    dead = world.submitted(a_job(state=State.DEAD, dispatch=4, dead_at=NOW))
    copies = [
        a_message(ended),
        a_message(dead, dispatch=2, dead_letter_mark=True),
        a_message(dead, dead_letter_mark=True),
        a_message(a_job()),
    ]
    assert world.sweep_dlq(*copies) == [("stale-dead-letter", True)] * 2
    assert world.dlq.standing == copies[2:]


def test_an_unreadable_job_in_a_dlq_keeps_nobody_behind_it() -> None:
    world = World()
    poison, good = world.submitted(a_job()), world.submitted(a_job(outbox=None, published_at=NOW))
    plain_get = world.store.get

    def throttled(job_id: str) -> Job | None:
        if job_id == poison.job_id:
            raise StoreUnavailable("throttled")
        return plain_get(job_id)

    world.store.get = throttled  # type: ignore[method-assign]
    assert world.sweep_dlq(a_message(poison), a_message(good)) == [("parked-by-sqs", True)]
    assert len(world.dlq.standing) == 1


def test_a_look_into_a_dlq_is_bounded_and_reaches_a_thousand_messages() -> None:
    world = World()
    stale = [a_message(world.submitted(a_job(state=State.COMPLETED))) for _ in range(1030)]
    assert len(world.sweep_dlq(*stale)) == 1000
    assert len(world.sweep_dlq()) == 30


def test_a_parked_job_whose_message_could_not_be_deleted_leaves_a_stale_message() -> None:
    world = World()
    job = world.submitted(a_job(outbox=None, published_at=NOW))
    message = a_message(job)
    assert world.sweep_dlq(message) == [("parked-by-sqs", True)]
    assert world.sweep_dlq(message) == [("stale-dead-letter", True)], "the crash between the two writes"


def test_a_swept_job_that_is_gone_is_no_error() -> None:
    assert sweep_job(a_job().job_id, World().ports, queue_empty=True) is None
    with pytest.raises(MoveRefused):
        World().store.apply(a_job().job_id, MARK, Seen(dispatch=1), published_at=NOW)
