"""A job has one worker at a time: its lease, and what becomes of a worker that lost it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.run import Continue, Defer
from shared.domain.states import (
    LEASE,
    RECLAIM,
    State,
)
from shared.domain.writes import Terms, Write, reclaim
from shared.errors import (
    DeterministicFailure,
    EnvironmentalFailure,
    LeaseLost,
    MoveRefused,
    StoreUnavailable,
    TransientFailure,
)
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import (
    MINUTE,
    NOW,
    SECOND,
    a_job,
    a_running_job,
)
from tests.world import DEFAULT_LEASE, Order, World, refuse_to_run

WAIT = 10.0


def fails(error: BaseException) -> Callable[[], Any]:
    def end() -> None:
        raise error

    return end


ENDINGS: dict[str, Callable[[], Any]] = {
    "completes": lambda: None,
    "retries": fails(TransientFailure("x")),
    "dies": fails(DeterministicFailure("x")),
    "defers": lambda: Defer(5 * SECOND),
    "continues": lambda: Continue({"page": 2}),
}


ACTS: dict[str, Callable[[Any], Any]] = {
    "begins an effect": lambda run: run.once("mail", lambda: pytest.fail("A's effect took place")),
    "reports progress": lambda run: run.progress(7, 9, "pages"),
}


@dataclass
class TwoWorkers:
    """A leases and freezes; B takes over; A resumes, acts and ends while B is still at work; then B ends."""

    a_acts: Callable[[Any], Any]
    a_ends: Callable[[], Any]
    world: World = field(default_factory=World)
    b_works: threading.Event = field(default_factory=threading.Event)
    a_ended: threading.Event = field(default_factory=threading.Event)
    outcomes: dict[str, Outcome | None] = field(default_factory=dict)
    while_b_works: list[Job] = field(default_factory=list)

    def play(self) -> Job:
        """The record in the end."""
        a_began = threading.Event()
        message = self.world.submitted(a_job())

        def handler(payload: Order, run: Any) -> Any:
            if run.attempt == 2:
                return self._b(run)
            a_began.set()
            assert self.b_works.wait(WAIT)
            self.a_acts(run)
            return self.a_ends()

        self.world.handler = handler
        a = threading.Thread(target=self._deliver_as, args=("a", message))
        a.start()
        assert a_began.wait(WAIT)
        self.world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
        self._deliver_as("b", message)
        a.join(WAIT)
        return self.world.found(message)

    def _deliver_as(self, who: str, message: Message) -> None:
        self.outcomes[who] = self.world.deliver(message)
        if who == "a":
            self.while_b_works.append(self.world.found(message))
            self.a_ended.set()

    def _b(self, run: Any) -> None:
        run.once("charge", lambda: "b")
        self.b_works.set()
        assert self.a_ended.wait(WAIT)

    def check(self, job: Job) -> None:
        """One outcome, B's. While B ran, it was the run number that kept A out, not the state."""
        assert self.outcomes == {"a": Outcome.LEASE_LOST, "b": Outcome.COMPLETED}
        (between,) = self.while_b_works
        assert (between.state, between.run, between.progress, between.checkpoint) == (State.RUNNING, 2, None, None)
        assert between.lease_expires_at == NOW + 2 * DEFAULT_LEASE + 4 * SECOND
        assert (job.state, job.run, job.attempts, job.error_class) == (State.COMPLETED, 2, 2, None)
        assert {name: effect.outcome for name, effect in job.effects.items()} == {"charge": '{"outcome": "b"}'}


@pytest.mark.parametrize("a_ends", ENDINGS.values(), ids=ENDINGS)
def test_a_worker_that_wakes_while_another_has_its_job_ends_it_in_no_way(a_ends: Callable[[], Any]) -> None:
    """SCENARIOS 1."""
    two = TwoWorkers(lambda run: None, a_ends)
    two.check(two.play())


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_worker_that_wakes_while_another_has_its_job_does_nothing_in_it(act: Callable[[Any], Any]) -> None:
    """SCENARIOS 1. Each act alone, for after the first refusal the run's handle asks nobody any more."""
    refused: list[bool] = []

    def acts(run: Any) -> None:
        with pytest.raises(LeaseLost):
            act(run)
        refused.append(True)

    two = TwoWorkers(acts, lambda: None)
    two.check(two.play())
    assert refused == [True]


def test_a_worker_that_wakes_where_another_has_done_its_effect_is_told_that_outcome_and_repeats_nothing() -> None:
    """SCENARIOS 1. The outcome on record is the job's, whoever asks; what A makes of it, it can write nowhere."""
    told: list[str] = []
    two = TwoWorkers(lambda run: told.append(run.once("charge", lambda: pytest.fail("charged twice"))), lambda: None)
    two.check(two.play())
    assert told == ["b"]


def test_a_lease_that_is_still_within_the_clock_margin_is_nobody_elses() -> None:
    """SCENARIOS 1. 31 s: the lease of 30 s has ended by this clock, and perhaps not by its holder's."""
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + SECOND)
    assert world.deliver(message) is Outcome.WAITING
    assert (world.found(message).run, world.found(message).holder) == (1, "holder-1")


def test_visibility_is_set_to_the_lease_and_its_margin_before_anything_else() -> None:
    world = World()
    message = world.submitted(a_job())
    world.handler = lambda payload, run: world.mailbox.hides.append(("ran", timedelta()))
    world.run_batch(message)
    assert world.mailbox.hides == [(message.message_id, DEFAULT_LEASE + 3 * SECOND), ("ran", timedelta())]


def test_a_message_that_finds_a_live_lease_is_hidden_until_it_ends_and_never_deleted() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(10 * SECOND)
    assert world.run_batch(message) == [message.message_id]
    assert world.mailbox.hidden[message.message_id] == 23 * SECOND


def test_a_lapsed_lease_is_reclaimed_under_the_next_run_with_the_old_run_in_the_history() -> None:
    world = World()
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    job = world.found(message)
    assert (job.run, job.attempts, job.stalls) == (2, 2, 1)
    (run,) = world.store.runs(job)
    assert (run.run, run.error_class, run.holder) == (1, "stalled", "holder-1")


def test_a_lease_whose_answer_was_lost_is_recognised_by_its_own_token() -> None:
    world = World()
    message = world.submitted(a_running_job(holder="token-1"))
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).run, world.found(message).attempts) == (1, 1)


def test_a_lost_race_to_reclaim_runs_nothing() -> None:
    world = World(handler=refuse_to_run)
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    reclaimed = replace(
        world.found(message), run=2, holder="other", lease_expires_at=world.clock.now() + DEFAULT_LEASE, attempts=2
    )
    plain_apply = world.store.apply

    def raced(job_id: str, write: Write) -> Job:
        if write.move is RECLAIM:
            world.store._jobs[job_id] = reclaimed
        return plain_apply(job_id, write)

    world.store.apply = raced  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.WAITING
    assert world.found(message) == reclaimed


def test_a_worker_whose_job_was_reclaimed_writes_nothing_and_does_not_acknowledge() -> None:
    """A leases; 34 s without a heartbeat; B reclaims and completes; A resumes and tries to end the job, each way."""
    for ending in (None, TransientFailure("x"), DeterministicFailure("x"), EnvironmentalFailure("x")):
        world = World()
        message = world.submitted(a_job())

        def stale(
            payload: Order, run: Any, world: World = world, message: Message = message, ending: Any = ending
        ) -> None:
            world.handler = lambda payload, run: None
            world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
            assert world.deliver(message) is Outcome.COMPLETED
            if ending:
                raise ending

        world.handler = stale
        assert world.deliver(message) is Outcome.LEASE_LOST
        job = world.found(message)
        assert (job.state, job.run, job.attempts, job.stalls) == (State.COMPLETED, 2, 2, 1)


def test_a_stale_worker_writes_no_history_over_the_one_that_ended_its_job() -> None:
    """Its lease lapsed and another delivery dead-lettered the job: the record still shows its run and holder."""
    world = World()
    message = world.submitted(a_job(max_attempts=1))

    def stale(payload: Order, run: Any) -> None:
        world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
        world.handler = refuse_to_run
        assert world.deliver(message) is Outcome.DEAD
        raise DeterministicFailure("too late")

    world.handler = stale
    assert world.deliver(message) is Outcome.LEASE_LOST
    assert [run.error_class for run in world.store.runs(world.found(message))] == ["stalled"]
    assert world.found(message).error_class == "stalled"


def test_a_lease_whose_answer_never_came_is_found_by_its_token() -> None:
    world = World()
    message = world.submitted(a_job())
    plain_apply = world.store.apply

    def answer_lost(job_id: str, write: Write) -> Job:
        after = plain_apply(job_id, write)
        if write.move.name == "lease":
            raise StoreUnavailable("read timeout")
        return after

    world.store.apply = answer_lost  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).attempts, world.found(message).stalls) == (1, 0)


def test_the_lease_counts_from_before_its_message_was_hidden_so_that_a_takeover_is_due_when_it_comes_back() -> None:
    """However long SQS took to answer: the message returns when its lease may be reclaimed, not a wait later."""
    world = World()
    message = world.submitted(a_job())
    plain_hide, leases = world.mailbox.hide, []

    def slow_hide(messages: Any, for_: Any) -> Any:
        unset = plain_hide(messages, for_)
        world.clock.forward(timedelta(milliseconds=700))
        return unset

    world.mailbox.hide = slow_hide  # type: ignore[method-assign]
    world.handler = lambda payload, run: leases.append(world.found(message).lease_expires_at)
    world.run_batch(message)
    assert leases == [NOW + DEFAULT_LEASE]


def test_a_message_that_could_not_be_hidden_is_hidden_as_its_job_is_leased() -> None:
    """Left with the queue's own visibility, six timeouts, a crash would cost the sweeper's patience."""
    world = World()
    message, plain_hide, asked = world.submitted(a_job()), world.mailbox.hide, []

    def throttled_once(messages: Any, for_: Any) -> Any:
        asked.append(for_)
        return list(messages) if len(asked) == 1 else plain_hide(messages, for_)

    world.mailbox.hide = throttled_once  # type: ignore[method-assign]
    world.handler = lambda payload, run: asked.append("runs")
    assert world.run_batch(message) == []
    assert asked == [[DEFAULT_LEASE + 3 * SECOND], [DEFAULT_LEASE + 3 * SECOND], "runs"]


def test_a_lease_whose_answer_is_lost_is_read_back_until_the_table_answers() -> None:
    """Left alone it would lapse and count as a crash of a worker that lives."""
    world = World()
    message = world.submitted(a_job())
    plain_apply, plain_get, silent = world.store.apply, world.store.get, []

    def answer_lost(job_id: str, write: Write) -> Job:
        after = plain_apply(job_id, write)
        if write.move.name == "lease":
            raise StoreUnavailable("timed out after it landed")
        return after

    def silent_at_first(job_id: str) -> Job | None:
        silent.append(job_id)
        if len(silent) < 4:
            raise StoreUnavailable("throttled")
        return plain_get(job_id)

    world.store.apply, world.store.get = answer_lost, silent_at_first  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert world.found(message).run == 1


@pytest.mark.parametrize(("races", "outcome"), [(3, Outcome.COMPLETED), (4, Outcome.WAITING)])
def test_four_races_lost_in_a_row_leave_the_message_for_later_three_do_not(races: int, outcome: Outcome) -> None:
    world = World()
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    lost, plain_apply = [], world.store.apply

    def raced(job_id: str, write: Write) -> Job:
        if write.move is RECLAIM and len(lost) < races:
            lost.append(1)
            raise MoveRefused(job_id, write.move.name, world.store.get(job_id))
        return plain_apply(job_id, write)

    world.store.apply = raced  # type: ignore[method-assign]
    assert world.deliver(message) is outcome


@pytest.mark.parametrize("how", ["unanswered", "answered late", "repeated and refused"])
@pytest.mark.parametrize("taken", [True, False])
def test_a_lease_that_is_over_before_its_answer_comes_starts_a_handler_only_once_it_is_renewed(
    how: str, taken: bool
) -> None:
    """Three tries of five seconds each, or a frozen process: meanwhile another worker may have the job."""
    leases: list[timedelta] = []
    world = World(handler=lambda payload, run: leases.append(run.held.expires_at - world.clock.now()))
    message, plain = world.submitted(a_job()), world.store.apply

    def slow(job_id: str, write: Write) -> Any:
        if write.move is not LEASE:
            return plain(job_id, write)
        after = plain(job_id, write)
        world.clock.forward(40 * SECOND)
        if taken:
            now = world.clock.now()
            theirs = Terms(holder="other", started_at=now, ends_at=now + MINUTE, code_version="abc1234")
            plain(job_id, reclaim(after, theirs))
        if how == "unanswered":
            raise StoreUnavailable("landed, no answer")
        return after if how == "answered late" else plain(job_id, write)

    world.store.apply = slow  # type: ignore[method-assign]
    outcome = world.deliver(message)
    if taken:
        assert not leases, "started beside the worker that has its job"
        assert world.found(message).holder == "other"
    else:
        assert (outcome, leases) == (Outcome.COMPLETED, [world.lease]), "a whole lease, and no stall"
        assert (world.found(message).stalls, world.found(message).attempts) == (0, 1)


def test_reading_a_lease_back_leaves_the_invocation_time_to_answer_for_its_batch() -> None:
    """One try of the table is up to 3 x 5 s in the worker's own configuration; ten of them outlast most workers."""
    world = World(time_left=QUEUES["emails.high"].function_timeout)
    neighbour, message = world.submitted(a_job()), world.submitted(a_job())
    plain, plain_get = world.store.apply, world.store.get

    def passes(seconds: int) -> None:
        world.time_left -= seconds * SECOND
        world.clock.forward(seconds * SECOND)

    def apply(job_id: str, write: Write) -> Any:
        if job_id == message.job_id:
            passes(15)
            raise StoreUnavailable("no answer")
        return plain(job_id, write)

    def get(job_id: str) -> Any:
        if job_id == message.job_id:
            passes(15)
            raise StoreUnavailable("no answer")
        return plain_get(job_id)

    world.store.apply, world.store.get = apply, get  # type: ignore[method-assign]
    world.deadline = 30 * SECOND
    world.run_batch(neighbour, message)
    assert world.time_left > timedelta(), f"the function was killed {-world.time_left} earlier, its answer with it"


def test_fifty_workers_on_one_lapsed_lease_make_one_run() -> None:
    ran: list[str] = []
    world = World(handler=lambda payload, run: ran.append(run.job_id), queue="emails.bulk")
    message = world.submitted(a_running_job(queue="emails.bulk"))
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    world.run_batch(*[replace(message, message_id=f"copy-{n}") for n in range(50)])
    assert len(ran) == 1
    assert (world.found(message).run, world.found(message).attempts) == (2, 2)


def test_the_rightful_holder_completes_after_its_lease_if_nobody_took_the_job_over() -> None:
    world = World()
    message = world.submitted(a_job())
    world.handler = lambda payload, run: world.clock.forward(DEFAULT_LEASE + 20 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).run, world.found(message).stalls) == (1, 0)


def test_a_takeover_whose_answer_never_came_is_found_by_its_token_and_is_no_second_stall() -> None:
    world, lost = World(), []
    message = world.submitted(a_running_job())
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    plain_apply = world.store.apply

    def answer_lost(job_id: str, write: Write) -> Any:
        after = plain_apply(job_id, write)
        if write.move is RECLAIM and not lost:
            lost.append(True)
            raise StoreUnavailable("timed out after it landed")
        return after

    world.store.apply = answer_lost  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.COMPLETED
    assert (world.found(message).run, world.found(message).stalls) == (2, 1)
