"""Effects where the table is throttled, answers late or not at all, on both stores: what counts as begun, as done, and
as not done.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, Job
from shared.domain.outcome import Outcome
from shared.domain.run import Cancel
from shared.domain.states import State
from shared.domain.writes import Terms, Write, reclaim
from shared.errors import (
    DeterministicFailure,
    EnvironmentalFailure,
    LeaseLost,
    MoveRefused,
    NotDone,
    StoreUnavailable,
    TransientFailure,
)
from shared.ports import JobStore, Message
from tests.builders import NOW, SECOND, a_job, a_message
from tests.world import DEFAULT_LEASE, World

START = ("start effect", "start effect (at most once)")


@pytest.fixture
def world(store: JobStore) -> World:
    return World(store=store)  # type: ignore[arg-type]


Answer = Callable[[Callable[[], Job]], Job]
"""What becomes of one call of the store that was to be made."""


def throttled(call: Callable[[], Job]) -> Job:
    raise StoreUnavailable("throttled")


def unanswered(call: Callable[[], Job]) -> Job:
    call()
    raise StoreUnavailable("landed, its answer lost")


def repeated(call: Callable[[], Job]) -> Job:
    """By the SDK, after a lost answer."""
    call()
    return call()


def answer_by(world: World, apply: Callable[[str, Write], Job]) -> None:
    """Every write of a record comes out as this says."""
    world.store.apply = apply  # type: ignore[method-assign]
    world.store.make = lambda job_id, write: apply(job_id, write) and None  # type: ignore[method-assign]


def spoil(world: World, moves: tuple[str, ...], *answers: Answer) -> list[str]:
    """The next calls of these moves come out so; later ones as they are. Returns the moves as they are made."""
    plain, left, made = world.store.apply, list(answers), []

    def apply(job_id: str, write: Write) -> Job:
        if write.move.name in moves:
            made.append(write.move.name)
            if left:
                return left.pop(0)(lambda: plain(job_id, write))
        return plain(job_id, write)

    answer_by(world, apply)
    return made


def taken_over(world: World, message: Message) -> None:
    """Another worker has the job now: its lease was over."""
    world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    now, found = world.clock.now(), world.found(message)
    theirs = Terms(holder="other", started_at=now, ends_at=now + DEFAULT_LEASE, code_version="abc1234")
    world.store.apply(message.job_id, reclaim(found, theirs))


# A start that is ours, or was


@pytest.mark.parametrize("at_most_once", [False, True])
def test_a_start_repeated_after_another_worker_took_the_job_over_begins_nothing(
    world: World, at_most_once: bool
) -> None:
    """The refusal still shows our entry under our run, in a record that is another's."""
    began: list[str] = []
    message = world.submitted(a_job())

    def landed_then_taken_over(call: Callable[[], Job]) -> Job:
        call()
        taken_over(world, message)
        return call()

    spoil(world, START, landed_then_taken_over)
    world.handler = lambda payload, run: run.once("pay", lambda: began.append(run.job_id), at_most_once=at_most_once)
    assert world.deliver(message) is Outcome.LEASE_LOST
    assert began == [], "beside the worker that has its job"
    assert world.found(message).holder == "other"


@pytest.mark.parametrize("at_most_once", [False, True])
@pytest.mark.parametrize("how", ["refused", "accepted"])
def test_a_start_whose_answer_comes_after_the_leases_end_begins_nothing_and_leaves_the_effect_to_the_next_run(
    world: World, how: str, at_most_once: bool
) -> None:
    began: list[int] = []
    message = world.submitted(a_job())

    def late(call: Callable[[], Job]) -> Job:
        after = call()
        world.clock.forward(DEFAULT_LEASE)
        return call() if how == "refused" else after

    spoil(world, START, late)
    world.handler = lambda payload, run: run.once("pay", lambda: began.append(1), at_most_once=at_most_once)
    assert world.deliver(message) is Outcome.LEASE_LOST
    assert began == []
    world.clock.forward(4 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert began == [1]


@pytest.mark.parametrize("at_most_once", [False, True])
@pytest.mark.parametrize("answers", [[repeated], [unanswered], [throttled], [throttled, unanswered, throttled]])
def test_a_start_the_table_did_not_take_or_answer_at_once_begins_its_effect_once(
    world: World, answers: list[Answer], at_most_once: bool
) -> None:
    began: list[int] = []
    spoil(world, START, *answers)
    world.handler = lambda payload, run: run.once("pay", lambda: began.append(1), at_most_once=at_most_once)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.COMPLETED
    assert (began, world.found(message).attempts) == ([1], 1)


def test_a_handler_that_was_fenced_while_its_effect_was_being_started_begins_nothing(world: World) -> None:
    """The start is accepted; before the effect is called the watch shuts the handler out."""
    began: list[int] = []
    handles: list[Any] = []

    def then_fenced(call: Callable[[], Job]) -> Job:
        after = call()
        handles[0].close()
        return after

    def handler(payload: Any, run: Any) -> None:
        handles.append(run)
        with pytest.raises(LeaseLost):
            run.once("pay", lambda: began.append(1))
        raise TransientFailure("fenced")

    spoil(world, START, then_fenced)
    world.handler = handler
    world.deliver(world.submitted(a_job()))
    assert began == []


# An end that the table did not take


@pytest.mark.parametrize("at_most_once", [False, True])
@pytest.mark.parametrize("answers", [[throttled], [throttled] * 5, [unanswered], [repeated], [unanswered, throttled]])
def test_one_throttled_answer_to_the_record_of_a_finished_effect_does_not_run_it_again(
    world: World, answers: list[Answer], at_most_once: bool
) -> None:
    done: list[int] = []
    spoil(world, ("finish effect",), *answers)

    def pay() -> int:
        done.append(1)
        return len(done)

    got: list[int] = []
    world.handler = lambda payload, run: got.append(run.once("pay", pay, at_most_once=at_most_once))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.COMPLETED
    assert (done, got, world.found(message).attempts) == ([1], [1], 1)
    assert world.found(message).effects["pay"].status == EFFECT_COMPLETED


def test_a_finished_effect_that_is_on_no_record_is_not_called_again_by_the_same_run(world: World) -> None:
    """The table is away until the handler's time is nearly over; the handler asks once more."""
    done: list[int] = []

    def handler(payload: Any, run: Any) -> None:
        with pytest.raises(StoreUnavailable):
            run.once("pay", lambda: done.append(1) or "ref", at_most_once=True)
        assert run.once("pay", lambda: done.append(1) or "ref", at_most_once=True) == "ref"

    world.deadline = 20 * SECOND
    spoil(world, ("finish effect",), *[throttled] * 37)
    world.handler = handler
    assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED
    assert done == [1]


def test_an_effect_insists_no_longer_than_its_handler_has_time_so_it_is_not_taken_for_one_that_hangs(
    world: World,
) -> None:
    world.deadline = 20 * SECOND
    spoil(world, ("finish effect",), *[throttled] * 1000)
    left: list[timedelta] = []

    def handler(payload: Any, run: Any) -> None:
        try:
            run.once("pay", lambda: 1)
        finally:
            left.append(run.time_left)

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert timedelta() < left[0] <= 2 * SECOND
    assert world.found(message).error_code == "StoreUnavailable"


def test_an_effect_whose_table_takes_long_to_say_nothing_insists_no_longer_than_one_more_try_takes(
    world: World,
) -> None:
    """Three tries of six seconds each, by the SDK: begun just before the deadline, the watch would end the process."""
    world.deadline, world.lease = 40 * SECOND, 60 * SECOND

    def timed_out(call: Callable[[], Job]) -> Job:
        world.clock.forward(18 * SECOND)
        raise StoreUnavailable("no answer")

    made = spoil(world, ("finish effect",), *[timed_out] * 1000)
    left: list[tuple[timedelta, int]] = []

    def handler(payload: Any, run: Any) -> None:
        try:
            run.once("pay", lambda: 1)
        finally:
            left.append((run.time_left, len(made)))

    world.handler = handler
    assert world.deliver(world.submitted(a_job())) is Outcome.RETRYING
    assert left == [(3.5 * SECOND, 2)]
    assert world.clock.now() - NOW < world.lease


def test_a_finished_effect_that_the_table_did_not_take_in_the_handlers_time_is_recorded_before_the_runs_end(
    world: World,
) -> None:
    world.deadline = 20 * SECOND
    done: list[int] = []
    spoil(world, ("finish effect",), *[throttled] * 40)
    world.handler = lambda payload, run: run.once("pay", lambda: done.append(1), at_most_once=True)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert world.found(message).effects["pay"].status == EFFECT_COMPLETED
    assert world.deliver(world.when_due(message)) is Outcome.COMPLETED
    assert done == [1]


@pytest.mark.parametrize("answer", [throttled, unanswered])
def test_an_at_most_once_start_that_the_table_never_answered_is_taken_back_before_the_runs_end(
    world: World, answer: Answer
) -> None:
    """Nothing began after it: left standing, the next run would take it for an effect whose end nobody knows."""
    world.deadline = 20 * SECOND
    done: list[int] = []
    spoil(world, START, *[answer] * 40)
    plain, refusals = world.store.apply, [True] * 40

    def apply(job_id: str, write: Write) -> Job:
        if write.move.name in START and refusals and refusals.pop():  # a repeat's refusal is lost too
            with contextlib.suppress(MoveRefused):
                plain(job_id, write)
            raise StoreUnavailable("no answer")
        return plain(job_id, write)

    answer_by(world, apply)
    world.handler = lambda payload, run: run.once("pay", lambda: done.append(1), at_most_once=True)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert world.found(message).effects == {}
    assert world.deliver(world.when_due(message)) is Outcome.COMPLETED
    assert done == [1]


def test_an_at_most_once_effect_whose_refusal_the_table_did_not_take_is_erased_before_the_runs_end(
    world: World,
) -> None:
    world.deadline = 20 * SECOND
    spoil(world, ("erase effect",), *[throttled] * 40)

    def refused() -> None:
        raise NotDone(TransientFailure("the bank is closed", code="bank-closed"))

    world.handler = lambda payload, run: run.once("pay", refused, at_most_once=True)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert (world.found(message).error_code, world.found(message).effects) == ("bank-closed", {})


def test_what_is_said_before_the_end_leaves_the_end_its_time(world: World) -> None:
    """The table takes nothing about effects for as long as the lease lasts, and everything else."""
    world.deadline = 20 * SECOND
    spoil(world, ("finish effect", *START), *[throttled] * 10_000)
    world.handler = lambda payload, run: run.once("pay", lambda: 1, at_most_once=True)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert world.clock.now() - NOW < world.lease - 4 * SECOND


# A failure that the table did not take


@pytest.mark.parametrize("away", [1, 1000])
def test_an_erase_the_table_did_not_take_hides_neither_the_providers_reason_nor_its_retry_after(
    world: World, away: int
) -> None:
    world.deadline = 20 * SECOND
    spoil(world, ("erase effect",), *[throttled] * away)

    def refused() -> None:
        raise TransientFailure("come back in an hour", code="busy", retry_after=3600)

    world.handler = lambda payload, run: run.once("pay", refused)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING_IN_DUE
    job = world.found(message)
    assert (job.error_code, job.error_message) == ("busy", "come back in an hour")
    assert job.next_attempt_at is not None
    assert job.next_attempt_at - world.clock.now() >= 3600 * SECOND


@pytest.mark.parametrize("answers", [[throttled], [throttled] * 37, [unanswered], [repeated]])
def test_a_second_try_in_the_same_handler_is_made_though_the_table_did_not_take_the_erase(
    world: World, answers: list[Answer]
) -> None:
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise TransientFailure("503")
        return "ref"

    def handler(payload: Any, run: Any) -> None:
        with pytest.raises(TransientFailure, match="503"):
            run.once("pay", flaky)
        assert run.once("pay", flaky) == "ref"

    world.deadline = 20 * SECOND
    spoil(world, ("erase effect",), *answers)
    world.handler = handler
    assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED
    assert len(calls) == 2


def test_an_effect_inside_itself_is_still_refused(world: World) -> None:
    world.handler = lambda payload, run: run.once("e", lambda: run.once("e", lambda: 1))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "effect-nested"


# Renewals, cancellations


def test_a_renewal_the_table_did_not_take_at_once_costs_a_handler_that_reports_seldom_nothing(world: World) -> None:
    def handler(payload: Any, run: Any) -> None:
        for page in range(1, 4):
            world.clock.forward(16 * SECOND)  # of a lease of thirty
            run.progress(page, 3, "pages")
            left.append(run.held.expires_at - world.clock.now())

    left: list[timedelta] = []
    spoil(world, ("renew",), throttled)
    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.COMPLETED
    assert min(left) == DEFAULT_LEASE


def test_a_cancellation_insists_on_the_record_it_reads(world: World) -> None:
    """Given up, it would pass for a worker that vanished."""
    plain, away = world.store.get, [True]

    def get(job_id: str) -> Job | None:
        if away and away.pop():
            raise StoreUnavailable("throttled")
        return plain(job_id)

    def handler(payload: Any, run: Any) -> Any:
        world.store.get = get  # type: ignore[method-assign]
        return Cancel("paid meanwhile")

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.CANCELLED
    assert world.found(message).reason == "paid meanwhile"


# At most once: what proves that it was not done


def test_an_at_most_once_effect_that_was_not_done_is_begun_by_the_next_run_and_done_once(world: World) -> None:
    calls: list[int] = []

    def pay() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise NotDone(TransientFailure("the bank was closed", code="bank-closed", retry_after=60))
        return "ref"

    world.handler = lambda payload, run: run.once("pay", pay, at_most_once=True) and None
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING_IN_DUE
    job = world.found(message)
    assert (job.error_class, job.error_code, job.effects) == ("transient", "bank-closed", {})
    assert world.deliver(world.when_due(message)) is Outcome.COMPLETED
    assert len(calls) == 2


def test_an_at_most_once_effect_that_was_not_done_may_be_begun_again_by_the_same_run(world: World) -> None:
    calls: list[int] = []

    def pay() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionRefusedError(111, "Connection refused")
        return "ref"

    def handler(payload: Any, run: Any) -> None:
        with pytest.raises(ConnectionRefusedError):
            run.once("pay", pay, at_most_once=True)
        assert run.once("pay", pay, at_most_once=True) == "ref"

    world.handler = handler
    assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED
    assert len(calls) == 2


@pytest.mark.parametrize("answers", [[], [throttled], [unanswered], [repeated]])
def test_a_dead_job_whose_at_most_once_effect_was_refused_is_done_when_it_is_replayed(
    world: World, answers: list[Answer]
) -> None:
    verified: list[bool] = []

    def send() -> str:
        if not verified:
            raise NotDone(DeterministicFailure("the sender is not verified", code="unverified"))
        return "m-1"

    spoil(world, ("erase effect",), *answers)
    world.handler = lambda payload, run: run.once("send", send, at_most_once=True) and None
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "unverified"
    verified.append(True)
    assert world.deliver(replayed(world, message)) is Outcome.COMPLETED


def replayed(world: World, message: Message) -> Message:
    """The doorbell of a dead job that an operator sent round again."""
    assert world.deliver(a_message(world.found(message), dead_letter=True)) is Outcome.REPLAYED
    return a_message(world.found(message))


def test_not_done_said_outside_an_effect_is_the_failure_it_carries(world: World) -> None:
    def handler(payload: Any, run: Any) -> None:
        raise NotDone(EnvironmentalFailure("closed", code="bank-closed"))

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEFERRED_IN_DUE
    assert world.found(message).error_class == "environmental"


# At most once: silence, and the reason that was known


def test_silence_leaves_an_at_most_once_effect_begun_and_no_death_overwrites_why(world: World) -> None:
    def silence() -> None:
        raise TimeoutError("no answer within 10 s")

    world.handler = lambda payload, run: run.once("pay", silence, at_most_once=True)
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    message = world.when_due(message)
    for _ in range(3):
        assert world.deliver(message) is Outcome.DEAD
        job = world.found(message)
        assert (job.error_class, job.error_code) == ("unknown-outcome", "unknown-outcome")
        assert job.error_message == (
            "effect 'pay' began in run 1 and never said how it ended; before: TimeoutError: no answer within 10 s"
        )
        assert job.effects["pay"].status == EFFECT_STARTED
        message = replayed(world, message)


def test_a_second_call_of_an_open_effect_in_the_same_run_names_how_the_first_ended(world: World) -> None:
    def handler(payload: Any, run: Any) -> None:
        for _ in range(2):
            try:
                run.once(
                    "pay", lambda: (_ for _ in ()).throw(TransientFailure("502", code="http-502")), at_most_once=True
                )
            except TransientFailure:
                continue

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert str(world.found(message).error_message).endswith("; before: http-502: 502")


def test_a_worker_that_vanishes_for_good_hides_no_reason_that_was_known(world: World) -> None:
    def handler(payload: Any, run: Any) -> None:
        if run.attempt == 1:
            raise TransientFailure("out of memory", code="oom")
        raise KeyboardInterrupt

    world.handler = handler
    message = world.submitted(a_job())
    world.deliver(message)
    world.clock.forward(5 * SECOND)

    def vanishes(job_id: str, write: Write) -> Job:
        if write.move.name in ("lease", "reclaim"):
            plain(job_id, write)
            raise SystemExit
        return plain(job_id, write)

    plain = world.store.apply
    world.store.apply = vanishes  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(SystemExit):
            world.deliver(message)
        world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
    world.store.apply = plain  # type: ignore[method-assign]
    assert world.deliver(message) is Outcome.DEAD
    job = world.found(message)
    assert (job.state, job.error_class) == (State.DEAD, "stalled")
    assert str(job.error_message).endswith("; before: oom: out of memory")


def test_threads_that_insist_side_by_side_each_record_their_own_effect() -> None:
    """On the twin alone: moto is not made for threads."""
    world = World()
    lock, done = threading.Lock(), []
    spoil(world, ("finish effect",), *[throttled] * 4)

    def effect(n: int) -> int:
        with lock:
            done.append(n)
        return n

    def handler(payload: Any, run: Any) -> None:
        threads = [threading.Thread(target=run.once, args=(f"e{n}", lambda n=n: effect(n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.COMPLETED
    assert sorted(done) == [0, 1, 2, 3]
    assert {one.status for one in world.found(message).effects.values()} == {EFFECT_COMPLETED}
