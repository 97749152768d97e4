"""Recorded effects on both stores: Powertools' idempotency inside the job record."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shared.adapters import effects as effects_module
from shared.adapters.memory import MemoryJobStore
from shared.domain.job import EFFECT_COMPLETED, EFFECT_STARTED, Effect, Job
from shared.domain.outcome import Outcome
from shared.domain.states import START_EFFECT, Seen, State
from shared.domain.writes import Write
from shared.errors import DeterministicFailure, MoveRefused, StoreUnavailable, TransientFailure
from shared.ports import JobStore, Message
from tests.builders import NOW, SECOND, a_job, a_message, a_running_job
from tests.moves import seen_for
from tests.world import DEFAULT_LEASE, Order, World


@dataclass
class Provider:
    """Something outside that counts how often it was called."""

    calls: list[str] = field(default_factory=list)
    fails: int = 0

    def charge(self) -> dict[str, str]:
        self.calls.append("charge")
        if len(self.calls) <= self.fails:
            raise TransientFailure("503")
        return {"ref": f"ch_{len(self.calls)}"}


@pytest.fixture
def world(store: JobStore) -> World:
    return World(store=store)  # type: ignore[arg-type]


def effects_of(world: World, message: Message) -> dict[str, Effect]:
    return dict(world.found(message).effects)


def test_an_effect_is_run_once_and_its_outcome_replayed_when_the_job_runs_again(world: World) -> None:
    provider, outcomes, fail = Provider(), [], [True]

    def handler(payload: Order, run: Any) -> None:
        outcomes.append(run.once("charge", provider.charge))
        if fail.pop():
            raise TransientFailure("after the effect")

    world.handler = handler
    fail[:] = [False, True]
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert effects_of(world, message)["charge"].status == EFFECT_COMPLETED
    world.clock.forward(5 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert provider.calls == ["charge"]
    assert outcomes == [{"ref": "ch_1"}] * 2


@pytest.mark.parametrize("outcome", [None, 0, "", False, [], {}, {"a": [1, None]}, "ok"])
def test_every_outcome_is_replayed_as_it_was_the_falsy_ones_too(world: World, outcome: Any) -> None:
    calls, got = [], []

    def effect() -> Any:
        calls.append(1)
        return outcome

    world.handler = lambda payload, run: got.extend(run.once("e", effect) for _ in range(2))
    assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED
    assert got == [outcome, outcome]
    assert type(got[1]) is type(outcome)
    assert len(calls) == 1


def test_the_first_outcome_has_the_shape_of_every_later_one(world: World) -> None:
    got: list[Any] = []
    world.handler = lambda payload, run: got.extend(run.once("e", lambda: (1, 2)) for _ in range(2))
    world.deliver(world.submitted(a_job()))
    assert got == [[1, 2], [1, 2]]


def test_an_interrupted_effect_is_taken_over_when_the_lease_ends_not_before_and_not_an_hour_later(world: World) -> None:
    provider = Provider()
    world.handler = lambda payload, run: run.once("charge", provider.charge) and None
    begun = {"charge": Effect(status=EFFECT_STARTED, run=1, at=NOW)}
    message = world.submitted(a_running_job(effects=begun))
    assert world.deliver(message) is Outcome.WAITING
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert provider.calls == ["charge"]
    assert effects_of(world, message)["charge"].run == 2


def test_an_effect_that_raised_may_be_tried_again_in_the_same_run_and_the_next(world: World) -> None:
    provider = Provider(fails=2)

    def handler(payload: Order, run: Any) -> None:
        try:
            run.once("charge", provider.charge)
        except TransientFailure:
            run.once("charge", provider.charge)

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.RETRYING
    assert effects_of(world, message) == {}
    world.clock.forward(5 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert len(provider.calls) == 3


def test_an_at_most_once_effect_is_never_begun_twice_and_stops_for_a_human(world: World) -> None:
    """Raised, or interrupted: nobody knows whether it took place."""
    provider = Provider(fails=1)
    world.handler = lambda payload, run: run.once("notify-bank", provider.charge, at_most_once=True) and None
    raised = world.submitted(a_job())
    assert world.deliver(raised) is Outcome.RETRYING
    world.clock.forward(5 * SECOND)
    assert world.deliver(raised) is Outcome.DEAD
    assert (world.found(raised).error_class, world.found(raised).attempts) == ("unknown-outcome", 2)
    begun = {"notify-bank": Effect(status=EFFECT_STARTED, run=1, at=NOW)}
    interrupted = world.submitted(a_running_job(effects=begun))
    world.clock.forward(DEFAULT_LEASE + 3 * SECOND)
    assert world.deliver(interrupted) is Outcome.DEAD
    assert len(provider.calls) == 1


def test_an_at_most_once_effect_that_raised_is_not_called_again_in_the_same_run_either(world: World) -> None:
    provider = Provider(fails=1)

    def handler(payload: Order, run: Any) -> None:
        for _ in range(2):
            try:
                run.once("notify-bank", provider.charge, at_most_once=True)
            except TransientFailure:
                continue

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert len(provider.calls) == 1


def test_effects_are_matched_by_name_so_reordering_and_renaming_never_mixes_them_up(world: World) -> None:
    calls: list[str] = []

    def effect(name: str) -> Any:
        return lambda: calls.append(name) or name

    order = [["a", "b"], ["b", "a", "c"]]
    got: list[list[str]] = []

    def handler(payload: Order, run: Any) -> None:
        got.append([run.once(name, effect(name)) for name in order[len(got)]])
        if len(got) == 1:
            raise TransientFailure("again")

    world.handler = handler
    message = world.submitted(a_job())
    world.deliver(message)
    world.clock.forward(5 * SECOND)
    assert world.deliver(message) is Outcome.COMPLETED
    assert calls == ["a", "b", "c"]
    assert got == order


def test_the_same_function_under_another_module_name_is_the_same_effect(world: World) -> None:
    """Powertools' own key holds module and qualified name, so a refactoring would run effects again."""
    calls: list[int] = []

    def first() -> int:
        calls.append(1)
        return 1

    renamed = lambda: first() + 1  # noqa: E731
    renamed.__module__ = "elsewhere"

    def handler(payload: Order, run: Any) -> None:
        run.once("e", first)
        run.once("e", renamed)

    world.handler = handler
    world.deliver(world.submitted(a_job()))
    assert calls == [1]


def test_a_stale_worker_can_neither_start_nor_finish_nor_erase_an_effect(world: World) -> None:
    """A begins an effect, freezes past its lease; B takes over and completes; A resumes inside its effect."""
    for ending in ("returns", "raises"):
        b_calls: list[int] = []
        message = world.submitted(a_job())

        def frozen(message: Message = message, b_calls: list[int] = b_calls, ending: str = ending) -> int:
            world.handler = lambda payload, run: run.once("charge", lambda: b_calls.append(1) or 7) and None
            world.clock.forward(DEFAULT_LEASE + 4 * SECOND)
            assert world.deliver(message) is Outcome.COMPLETED
            if ending == "raises":
                raise TransientFailure("too late")
            return 8

        world.handler = lambda payload, run, frozen=frozen: run.once("charge", frozen) and None
        assert world.deliver(message) is Outcome.LEASE_LOST
        assert effects_of(world, message)["charge"].outcome == '{"outcome": 7}'
        assert b_calls == [1]


def test_a_fenced_worker_cannot_begin_an_effect(world: World, store: JobStore) -> None:
    job = a_running_job(run=2, holder="other")
    store.submit(job, NOW)
    with pytest.raises(MoveRefused):
        store.apply(
            job.job_id, Write(START_EFFECT, replace_seen(job), {"effect": Effect(status=EFFECT_STARTED, run=1, at=NOW)})
        )
    assert store.get(job.job_id) == job


def replace_seen(job: Job) -> Seen:
    return replace(seen_for(job), run=1, holder="holder-1", effect="charge")


@pytest.mark.parametrize("outcome", ["x" * 1100, object(), {1, 2}, float("nan")])
def test_an_outcome_that_cannot_be_kept_is_refused_by_name_and_the_effect_is_not_repeated(
    world: World, outcome: Any
) -> None:
    calls: list[int] = []

    def effect() -> Any:
        calls.append(1)
        return outcome

    def handler(payload: Order, run: Any) -> None:
        with pytest.raises(DeterministicFailure, match="outcome"):
            run.once("e", effect)
        run.once("e", effect)

    world.handler = handler
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "effect-outcome-invalid"
    assert len(calls) == 1


def test_the_twenty_first_effect_is_refused_before_it_runs(world: World) -> None:
    ran: list[int] = []
    world.handler = lambda payload, run: [run.once(f"e{n}", lambda n=n: ran.append(n)) for n in range(21)] and None
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "too-many-effects"
    assert ran == list(range(20))
    assert len(effects_of(world, message)) == 20


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", 7, None])
def test_an_effect_without_a_proper_name_is_refused_instead_of_running_unguarded(world: World, name: Any) -> None:
    ran: list[int] = []
    world.handler = lambda payload, run: run.once(name, lambda: ran.append(1))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert "effect's name" in str(world.found(message).error_message)
    assert ran == []


def test_an_effect_inside_itself_is_refused_instead_of_running_twice(world: World) -> None:
    world.handler = lambda payload, run: run.once("e", lambda: run.once("e", lambda: 1))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "effect-nested"


def test_effects_switched_off_from_outside_stop_the_job_instead_of_running_unguarded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(effects_module.DISABLED, "true")
    world.handler = lambda payload, run: run.once("e", lambda: pytest.fail("ran unguarded"))
    message = world.submitted(a_job())
    assert world.deliver(message) is Outcome.DEAD
    assert world.found(message).error_code == "effects-disabled"


def test_a_start_whose_answer_was_lost_is_recognised_and_runs_the_effect_once(world: World, store: JobStore) -> None:
    plain_apply, lost, calls = store.apply, [], []

    def answer_lost(job_id: str, write: Write) -> Job:
        if write.move.name.startswith("start effect") and not lost:
            lost.append(plain_apply(job_id, write))
        return plain_apply(job_id, write)  # the SDK's second try

    store.apply = answer_lost  # type: ignore[method-assign]
    for at_most_once in (False, True):
        lost.clear()
        world.handler = lambda payload, run, amo=at_most_once: run.once("e", lambda: calls.append(1), at_most_once=amo)
        assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED
    assert calls == [1, 1]


def test_a_start_that_was_never_answered_may_be_tried_again_in_the_same_run(world: World, store: JobStore) -> None:
    plain_apply, lost, calls = store.apply, [], []

    def unanswered(job_id: str, write: Write) -> Job:
        after = plain_apply(job_id, write)
        if write.move.name.startswith("start effect") and not lost:
            lost.append(True)
            raise StoreUnavailable("landed, its answer lost")
        return after

    store.apply = unanswered  # type: ignore[method-assign]

    def handler(payload: Order, run: Any) -> None:
        try:
            run.once("charge", lambda: calls.append(1))
        except StoreUnavailable:
            run.once("charge", lambda: calls.append(1))

    world.handler = handler
    assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED
    assert calls == [1]


def test_threads_of_one_handler_begin_an_at_most_once_effect_once() -> None:
    for _ in range(20):
        world, calls = World(), []

        def handler(payload: Order, run: Any, calls: list[int] = calls) -> None:
            barrier = threading.Barrier(4)

            def act() -> None:
                barrier.wait()
                with contextlib.suppress(DeterministicFailure):
                    run.once("pay", lambda: calls.append(1) or time.sleep(0.01), at_most_once=True)

            threads = [threading.Thread(target=act) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        world.handler = handler
        world.deliver(world.submitted(a_job()))
        assert calls == [1]


def test_effects_are_kept_when_their_job_is_replayed(world: World) -> None:
    done = {"charge": Effect(status=EFFECT_COMPLETED, run=1, at=NOW, outcome='{"outcome":"ch_1"}')}
    dead = a_job(state=State.DEAD, dispatch=2, run=1, attempts=1, effects=done, dead_at=NOW, dead_key="d", outbox=None)
    world.store.submit(dead, NOW)
    assert world.deliver(a_message(dead, dead_letter=True)) is Outcome.REPLAYED
    got: list[Any] = []
    world.handler = lambda payload, run: got.append(run.once("charge", lambda: pytest.fail("charged twice")))
    message = a_message(world.found(a_message(dead)))
    assert world.deliver(message) is Outcome.COMPLETED
    assert got == ["ch_1"]


def test_a_hundred_jobs_side_by_side_lose_no_effect_record() -> None:
    """One layer object shared by threads overwrites its own configuration; here every call has its own."""
    world, calls, lock = World(queue="emails.bulk"), [], threading.Lock()

    def handler(payload: Order, run: Any) -> None:
        def effect() -> str:
            with lock:
                calls.append(run.job_id)
            return str(run.job_id)

        assert run.once("send", effect) == run.job_id

    world.handler = handler
    messages = [world.submitted(a_job(queue="emails.bulk")) for _ in range(100)]
    assert world.run_batch(*messages) == []
    assert len(calls) == 100
    assert {world.found(m).effects["send"].status for m in messages} == {EFFECT_COMPLETED}


def test_effects_warn_of_nothing() -> None:
    world = World(handler=lambda payload, run: run.once("e", lambda: 1) and None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert world.deliver(world.submitted(a_job())) is Outcome.COMPLETED


def test_two_write_units_are_all_an_effect_costs() -> None:
    store = MemoryJobStore()
    world = World(store=store, handler=lambda payload, run: run.once("e", lambda: 1) and None)
    message = world.submitted(a_job())
    before = len(store.images)
    world.deliver(message)
    assert len(store.images) - before == 4, "lease, start, finish, complete"
