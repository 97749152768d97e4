"""Leases that changed hands: what others lost there, on the twin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from shared.adapters.sqs import SqsMailbox
from shared.domain.job import Job
from shared.domain.outcome import Outcome
from shared.domain.run import Continue, Defer
from shared.domain.states import RENEW, Seen, State
from shared.errors import DeterministicFailure, LeaseLost, StoreUnavailable, TransientFailure
from shared.operations.run import run_batch
from shared.operations.sweep import SweeperPorts, sweep_job
from shared.ports import Message
from shared.queues import QUEUES
from tests.builders import NOW, MemoryDeadLetters, a_job, a_running_job
from tests.world import LEASE, SECOND, Order, World, refuse_to_run

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
        self.world.clock.forward(LEASE + 4 * SECOND)
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
        assert between.lease_expires_at == NOW + 2 * LEASE + 4 * SECOND
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
    world.clock.forward(LEASE + SECOND)
    assert world.deliver(message) is Outcome.WAITING
    assert (world.found(message).run, world.found(message).holder) == (1, "holder-1")


def test_a_lease_renewed_while_the_sweeper_looks_stays_its_holders_and_the_lost_race_is_counted() -> None:
    """SCENARIOS 2: the job is running before and after; only the lease that was seen tells that it is not stuck."""
    world = World()
    message = world.submitted(a_running_job())
    world.clock.forward(2 * timedelta(minutes=1))
    plain_get = world.store.get
    renewed_until = world.clock.now() + LEASE

    def renewed_meanwhile(job_id: str) -> Job | None:
        found = plain_get(job_id)
        world.store.apply(job_id, RENEW, Seen(run=1, holder="holder-1"), lease_expires_at=renewed_until)
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


# ---- a fault right after the release --------------------------------------------------------------------------------


def test_a_job_whose_release_could_not_be_told_to_sqs_is_not_run_in_that_invocation_either() -> None:
    """SCENARIOS 8."""
    with mock_aws():
        world = World(handler=refuse_to_run, time_left=timedelta(seconds=1), queue="webhooks.partner-a")
        lane = {"queue": "webhooks.partner-a"}
        messages = [replace(world.submitted(a_job(**lane)), group="k") for _ in range(3)]
        client = boto3.client("sqs", region_name="eu-west-1")
        unreachable = SqsMailbox(client, "no-such-stage", QUEUES["webhooks.partner-a"], world.log)
        kept = run_batch(messages, replace(world.ports, mailbox=unreachable))
    assert kept == [m.message_id for m in messages]
    assert "visibility-not-set" in world.log.names()
    assert [(world.found(m).state, world.found(m).attempts) for m in messages] == [(State.QUEUED, 0)] * 3


@pytest.mark.parametrize(
    "fields", [{"type": "unheard-of"}, {"payload": None, "payload_ref": b"k" * 16}], ids=["unleased", "leased"]
)
def test_a_job_that_was_deferred_is_not_run_although_the_answer_to_its_deferral_is_lost(fields: dict[str, Any]) -> None:
    """SCENARIOS 8. Deferred before its lease (no such type here yet), or under it (its payload could not be read)."""
    world = World(handler=refuse_to_run)
    message = world.submitted(a_job(**fields))
    plain_apply = world.store.apply

    def answer_lost(job_id: str, move: Any, seen: Seen, **changes: Any) -> Job:
        after = plain_apply(job_id, move, seen, **changes)
        if move.target is State.RETRYING:
            raise StoreUnavailable("timed out after it landed")
        return after

    def down(*_: object) -> str:
        raise StoreUnavailable("throttled")

    world.store.apply, world.store.get_payload = answer_lost, down  # type: ignore[method-assign]
    assert world.run_batch(message) == [message.message_id]
    assert (world.found(message).state, world.found(message).attempts) == (State.RETRYING, 0)
    recognised = message.type != "unheard-of"  # under a lease the write is repeated, and found to be our own
    assert world.meter.outcomes() == ["deferred" if recognised else "unavailable"]
