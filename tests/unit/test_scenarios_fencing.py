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
from tests.builders import MemoryDeadLetters, a_job, a_running_job
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


@dataclass
class TwoWorkers:
    """A leases and freezes; B takes over; A resumes and ends while B is still at work; then B ends."""

    world: World = field(default_factory=World)
    refused: list[str] = field(default_factory=list)
    b_works: threading.Event = field(default_factory=threading.Event)
    a_ended: threading.Event = field(default_factory=threading.Event)
    outcomes: dict[str, Outcome | None] = field(default_factory=dict)
    while_b_works: list[Job] = field(default_factory=list)

    def play(self, a_ends: Callable[[], Any]) -> Message:
        a_began = threading.Event()
        message = self.world.submitted(a_job())

        def handler(payload: Order, run: Any) -> Any:
            if run.attempt == 2:
                return self._b(run)
            a_began.set()
            assert self.b_works.wait(WAIT)
            self._try_everything(run)
            return a_ends()

        self.world.handler = handler
        a = threading.Thread(target=self._deliver_as, args=("a", message))
        a.start()
        assert a_began.wait(WAIT)
        self.world.clock.forward(LEASE + 4 * SECOND)
        self._deliver_as("b", message)
        a.join(WAIT)
        return message

    def _deliver_as(self, who: str, message: Message) -> None:
        self.outcomes[who] = self.world.deliver(message)
        if who == "a":
            self.while_b_works.append(self.world.found(message))
            self.a_ended.set()

    def _b(self, run: Any) -> None:
        run.once("charge", lambda: "b")
        self.b_works.set()
        assert self.a_ended.wait(WAIT)
        run.progress(1, 2, "pages")

    def _try_everything(self, run: Any) -> None:
        acts = {
            "effect": lambda: run.once("mail", lambda: pytest.fail("A's effect took place")),
            "known effect": lambda: run.once("charge", lambda: pytest.fail("A's effect took place")),
            "progress": lambda: run.progress(7, 9, "pages"),
        }
        for name, act in acts.items():
            try:
                act()
            except LeaseLost:
                self.refused.append(name)


@pytest.mark.parametrize("a_ends", ENDINGS.values(), ids=ENDINGS)
def test_a_worker_that_wakes_while_another_has_its_job_changes_nothing_in_it(a_ends: Callable[[], Any]) -> None:
    """SCENARIOS 1. B is still running, so it is the run number that keeps A out, not the state."""
    two = TwoWorkers()
    message = two.play(a_ends)
    assert two.refused == ["effect", "known effect", "progress"]
    assert two.outcomes == {"a": Outcome.LEASE_LOST, "b": Outcome.COMPLETED}
    (between,) = two.while_b_works
    assert (between.state, between.run, between.progress, between.checkpoint) == (State.RUNNING, 2, None, None)
    job = two.world.found(message)
    assert (job.state, job.run, job.attempts, job.error_class) == (State.COMPLETED, 2, 2, None)
    assert {name: effect.outcome for name, effect in job.effects.items()} == {"charge": '{"outcome": "b"}'}


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
        store=world.store, dead_letters=MemoryDeadLetters(), clock=world.clock, log=world.log, queues=QUEUES
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
    assert world.meter.outcomes() == ["unavailable"]
