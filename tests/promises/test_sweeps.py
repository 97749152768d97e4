"""The sweeper repairs what broke, and leaves alone what moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory import MemoryJobStore
from shared.adapters.sqs import LOOKED_AT, message_of
from shared.domain.doorbell import Bell
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.repair import PATIENCE
from shared.domain.retry import FailureClass
from shared.domain.states import COMPLETE, LEASE, MARK, RENEW, REQUEUE, Seen, State
from shared.domain.writes import Write
from shared.errors import MoveRefused, StoreUnavailable
from shared.operations.redrive import OperatorPorts, replay
from shared.operations.relay import OutboxRecord, RelayPorts, relay
from shared.operations.sweep import Repaired, SweeperPorts, sweep_dead_letters, sweep_job
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import (
    MINUTE,
    NOW,
    SECOND,
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
from tests.histories.sqs import Sqs, event_record
from tests.moves import changes_for, seen_for
from tests.world import DEFAULT_LEASE, World

LANE = QUEUES["exports.month-end"]


LEASED = {"holder": "h", "lease_expires_at": NOW + MINUTE, "started_at": NOW, "code_version": "abc1234"}


@dataclass
class Sweeping:
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


def test_a_doorbell_rung_again_is_the_same_doorbell() -> None:
    """A new dispatch would make the message that is still in a slow stream stale, for ever."""
    world = Sweeping()
    repaired, job = world.sweep(world.submitted(a_job()), 2 * MINUTE)
    assert repaired == Repaired(job.job_id, "unpublished", "ring-again", done=True)
    assert (job.dispatch, job.outbox, job.rung_at) == (1, "open", NOW + 2 * MINUTE)
    assert len(world.store.images) == 2, "the stream has it again"


def test_a_relay_that_marks_while_the_sweeper_looks_wins() -> None:
    world = Sweeping()
    job = world.submitted(a_job())
    plain_get = world.store.get

    def marked_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        world.store.apply(job_id, Write(MARK, Seen(dispatch=1), {"published_at": NOW}))
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
    world = Sweeping()
    repaired, job = world.sweep(world.submitted(a_running_job()), 2 * MINUTE)
    assert repaired is not None
    assert (repaired.invariant, repaired.done) == ("expired-lease", True)
    assert (job.state, job.dispatch, job.outbox, job.stalls, job.attempts) == (State.QUEUED, 2, "open", 1, 1)
    assert [run.error_code for run in world.store.runs(job)] == ["worker-vanished"]


def test_a_job_that_completes_while_the_sweeper_looks_stays_completed_and_the_lost_race_is_counted() -> None:
    """SCENARIOS 2."""
    world = Sweeping()
    job = world.submitted(a_running_job())
    plain_get = world.store.get

    def completed_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        ends = {"completed_at": NOW, "expires_at": NOW + timedelta(days=1)}
        world.store.apply(job_id, Write(COMPLETE, Seen(run=1, holder="holder-1"), ends))
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
    world = Sweeping()
    repaired, job = world.sweep(world.submitted(a_running_job(**fields)), 2 * MINUTE)
    assert repaired is not None
    assert (repaired.done, job.state) == (True, state)
    assert job.expires_at is not None


def test_a_lost_retry_gets_a_new_doorbell() -> None:
    world = Sweeping()
    waits = {"state": State.RETRYING, "next_attempt_at": NOW, "attempts": 1, "outbox": None, "published_at": NOW}
    job = world.submitted(a_job(**waits))
    assert world.sweep(job, 6 * MINUTE)[0] is None
    repaired, job = world.sweep(job, 6 * MINUTE, queue_empty=True)
    assert repaired is not None
    assert (repaired.invariant, job.state, job.dispatch, job.outbox) == ("lost-doorbell", State.QUEUED, 2, "open")


def test_an_overdue_job_is_promoted() -> None:
    world = Sweeping()
    job = a_job(state=State.SCHEDULED, dispatch=0, outbox=None, due_at=NOW, due_key="due#0")
    repaired, job = world.sweep(world.submitted(job), 3 * MINUTE)
    assert repaired is not None
    assert (repaired.done, job.state, job.dispatch, job.outbox) == (True, State.QUEUED, 1, "open")


def test_a_dry_run_names_every_repair_and_makes_none() -> None:
    world = Sweeping()
    job = world.submitted(a_running_job())
    repaired, after = world.sweep(job, 2 * MINUTE, dry_run=True)
    assert repaired == Repaired(job.job_id, "expired-lease", "requeue", done=False)
    assert after == job
    assert world.sweep_dlq(a_message(job), dry_run=True) == [("parked-by-sqs", False)]
    assert len(world.dlq.standing) == 1


def test_what_sqs_moved_away_unrun_is_parked_as_never_ran_and_its_message_goes() -> None:
    """SCENARIOS 9."""
    world = Sweeping()
    job = world.submitted(a_job(outbox=None, published_at=NOW))
    assert world.sweep_dlq(a_message(job)) == [("parked-by-sqs", True)]
    found = world.store.get(job.job_id)
    assert found is not None
    assert (found.state, found.error_class, found.attempts) == (State.DEAD, FailureClass.NEVER_RAN, 0)
    assert (found.dispatch, found.outbox) == (2, "open"), "the relay puts a marked copy in its place"
    assert world.dlq.standing == []


def test_what_sqs_moved_away_after_its_worker_vanished_is_parked_as_stalled() -> None:
    world = Sweeping()
    job = world.submitted(a_running_job())
    assert world.sweep_dlq(a_message(job)) == [], "its worker may live"
    world.clock.forward(MINUTE)
    assert world.sweep_dlq() == [("parked-by-sqs", True)]
    found = world.store.get(job.job_id)
    assert found is not None
    assert (found.state, found.error_class) == (State.DEAD, FailureClass.STALLED)
    assert [run.run for run in world.store.runs(job)] == [1], "the run that ended without a word is in the history"


def test_a_job_that_a_second_copy_brought_to_a_worker_is_not_parked() -> None:
    world = Sweeping()
    job = world.submitted(a_job(outbox=None, published_at=NOW))
    plain_get = world.store.get

    def leased_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        world.store.apply(job_id, Write(LEASE, Seen(now=NOW, dispatch=1), LEASED))
        return found

    world.store.get = leased_meanwhile  # type: ignore[method-assign]
    assert world.sweep_dlq(a_message(job)) == [("parked-by-sqs", False)]
    found = plain_get(job.job_id)
    assert found is not None
    assert found.state is State.RUNNING
    assert len(world.dlq.standing) == 1


def test_a_copy_of_a_job_that_is_not_dead_any_more_is_dropped_and_counted() -> None:
    """SCENARIOS 13."""
    world = Sweeping()
    ended = world.submitted(a_job(state=State.COMPLETED, outbox=None))
    dead = world.submitted(a_job(state=State.DEAD, dispatch=4, dead_at=NOW))
    copies = [
        a_message(ended),
        a_message(dead, dispatch=2, dead_letter=True),
        a_message(dead, dead_letter=True),
        a_message(a_job()),
    ]
    assert world.sweep_dlq(*copies) == [("stale-dead-letter", True)] * 2
    assert world.dlq.standing == copies[2:]


def test_an_unreadable_job_in_a_dlq_keeps_nobody_behind_it() -> None:
    world = Sweeping()
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
    world = Sweeping()
    stale = [a_message(world.submitted(a_job(state=State.COMPLETED))) for _ in range(1030)]
    assert len(world.sweep_dlq(*stale)) == 1000
    assert len(world.sweep_dlq()) == 30


def test_a_parked_job_whose_message_could_not_be_deleted_leaves_a_stale_message() -> None:
    world = Sweeping()
    job = world.submitted(a_job(outbox=None, published_at=NOW))
    message = a_message(job)
    assert world.sweep_dlq(message) == [("parked-by-sqs", True)]
    assert world.sweep_dlq(message) == [("stale-dead-letter", True)], "the crash between the two writes"


def test_a_swept_job_that_is_gone_is_no_error() -> None:
    assert sweep_job(a_job().job_id, Sweeping().ports, queue_empty=True) is None
    with pytest.raises(MoveRefused):
        Sweeping().store.apply(a_job().job_id, Write(MARK, Seen(dispatch=1), {"published_at": NOW}))


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
    assert (copy.bell.dead_letter, copy.bell.dispatch) == (True, 2)
    assert copy.attributes["error_class"] == FailureClass.NEVER_RAN
    marked = a_message(parked, dead_letter=True)
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


@pytest.mark.parametrize("hours", [0, 5])
def test_a_requeued_jobs_ring_is_given_time_and_rung_again_as_soon_as_a_young_jobs(hours: int) -> None:
    """Its age is not the age of its ring: not rung again at once, nor after hours when the second is lost too."""
    world, old = Sweeping(), NOW - timedelta(hours=hours)
    job = world.submitted(a_running_job(created_at=old, run_at=old, available_at=old, lease_expires_at=NOW))
    rung = []
    for minute in range(2, 12):
        repaired, _ = world.sweep(job, minute * MINUTE)
        rung += [minute] if repaired else []
    assert rung[:3] == [2, 4, 7], "requeued; PATIENCE and a tick later; then as long again as all before it"


def test_an_overdue_job_that_was_just_promoted_is_not_said_to_be_unpublished() -> None:
    """Seen with every promotion that comes late: a FIFO job's, within its two minutes, too."""
    world = Sweeping()
    job = world.submitted(a_job(state=State.SCHEDULED, dispatch=0, outbox=None, due_at=NOW, due_key="due#0"))
    promoted, _ = world.sweep(job, 60 * MINUTE)
    assert promoted is not None
    assert world.sweep(job, 60 * MINUTE + PATIENCE / 2)[0] is None


def test_a_record_nobody_can_read_keeps_no_other_dead_letter_from_being_looked_at() -> None:
    world = Sweeping()
    jobs = [world.submitted(a_job(outbox=None, published_at=NOW)) for _ in range(3)]
    plain_get = world.store.get

    def unreadable(job_id: str) -> Job | None:
        if job_id == jobs[1].job_id:
            raise ValueError("attribute 'state' is no State: 'archived'")
        return plain_get(job_id)

    world.store.get = unreadable  # type: ignore[method-assign]
    assert world.sweep_dlq(*(a_message(job) for job in jobs)) == [("parked-by-sqs", True)] * 2


def test_a_lease_renewed_while_the_sweeper_looks_stays_its_holders_and_the_lost_race_is_counted() -> None:
    """SCENARIOS 2: the job is running before and after; only the lease that was seen tells that it is not stuck."""
    world = World()
    message = world.submitted(a_running_job())
    world.clock.forward(2 * timedelta(minutes=1))
    plain_get = world.store.get
    renewed_until = world.clock.now() + DEFAULT_LEASE

    def renewed_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        world.store.apply(job_id, Write(RENEW, Seen(run=1, holder="holder-1"), {"lease_expires_at": renewed_until}))
        return found

    world.store.get = renewed_meanwhile  # type: ignore[method-assign]
    ports = SweeperPorts(
        store=world.store,
        dead_letters=MemoryDeadLetters(),
        clock=world.clock,
        log=world.log,
        meter=world.meter,
        queues=QUEUES,
    )
    repaired = sweep_job(message.job_id, ports, queue_empty=False)
    assert repaired is not None
    assert not repaired.done
    job = plain_get(message.job_id)
    assert job is not None
    assert (job.state, job.run, job.stalls, job.lease_expires_at) == (State.RUNNING, 1, 0, renewed_until)
    assert ("swept", False) in [(name, line.get("done")) for name, line in world.log.lines]


def test_a_job_that_completes_between_a_repairs_read_and_its_write_stays_completed() -> None:
    """SCENARIOS 2."""
    world = World()
    message = world.submitted(a_running_job(lease_expires_at=None, holder="token-1"))
    stuck = replace(world.found(message), lease_expires_at=world.clock.now() - 10 * SECOND)
    world.store._jobs[stuck.job_id] = stuck
    seen = seen_for(stuck)
    assert world.deliver(message) is Outcome.COMPLETED
    with pytest.raises(MoveRefused) as lost:
        world.store.apply(stuck.job_id, Write(REQUEUE, seen, changes_for(REQUEUE)))
    assert lost.value.found is not None
    assert lost.value.found.state is State.COMPLETED
    assert world.found(message).state is State.COMPLETED


def test_a_job_whose_cancellation_was_requested_is_cancelled_not_parked() -> None:
    store, clock, log = MemoryJobStore(), TestClock(), RecordedLog()
    job = a_running_job(cancel_request={"who": "ops", "why": "not wanted"})
    store.submit(job, NOW)
    clock.forward(timedelta(minutes=10))

    class Dlq:
        def __init__(self) -> None:
            self.standing = [a_message(job)]

        def receive(self, queue: Any) -> Any:
            got, self.standing = self.standing, []
            return got

        def delete(self, queue: Any, messages: Any) -> None: ...

    ports = SweeperPorts(store=store, dead_letters=Dlq(), clock=clock, log=log, meter=RecordedMeter(), queues=QUEUES)
    sweep_dead_letters(QUEUES[job.queue], ports)
    sweep_job(job.job_id, ports, queue_empty=False)
    found = store.get(job.job_id)
    assert found is not None
    assert found.state is State.CANCELLED, f"{found.state}, with the request still in it"


def test_a_standard_dlq_with_six_hundred_dead_jobs_still_shows_what_lies_behind_them() -> None:
    """A look takes a hundred, each hidden five minutes: at a tick a minute the first are back before the 501st was
    seen, where SQS gives the oldest first (best effort, on a standard queue).
    """
    lane, store, clock = QUEUES["exports.month-end"], MemoryJobStore(), TestClock()
    sqs = Sqs([lane], most_receives=100, old_receipts=False, now=clock.now)
    box = sqs.dead[lane.name]

    class Dlq:
        def receive(self, queue: Any) -> Any:
            names = [one.name for one in box.visible(clock.now())][:10]
            return [message_of(event_record(one)) for one in sqs.receive(box, names, LOOKED_AT)]

        def delete(self, queue: Any, messages: Any) -> None:
            for message in messages:
                sqs.delete(box, message.receipt)

    def send(job: Any, mark: bool) -> None:
        bell = Bell(job_id=job.job_id, dispatch=job.dispatch, type=job.type, payload_version=1, dead_letter=mark)
        sqs.send(box, bell.body(), None, None, timedelta())

    for _ in range(600):
        dead = a_job(state=State.DEAD, dispatch=2, outbox=None, dead_at=NOW)
        store.submit(dead, NOW)
        send(dead, mark=True)
    stuck = a_job(outbox=None, published_at=NOW)
    store.submit(stuck, NOW)
    send(stuck, mark=False)
    ports = SweeperPorts(
        store=store, dead_letters=Dlq(), clock=clock, log=RecordedLog(), meter=RecordedMeter(), queues=QUEUES
    )
    for _ in range(60):
        sweep_dead_letters(lane, ports)
        clock.forward(MINUTE)
    found = store.get(stuck.job_id)
    assert found is not None
    assert found.state is State.DEAD, f"an hour of looks every minute, and the record still says {found.state}"
